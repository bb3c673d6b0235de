// What can be done with a workspace, wherever it is shown.

import { post, remove, workspacePath } from "./api.js";
import { button, dialog, foreign, h, notice } from "./dom.js";
import { duration, stateOf } from "./format.js";
import { classOf, known, put } from "./store.js";

const LABELS = { creating: "starting", running: "running", suspended: "asleep", failed: "failed", deleting: "ending", deleted: "deleted" };

export function badge(workspace) {
  const state = stateOf(workspace);
  return h("span", { class: `badge ${state}` }, LABELS[state] ?? state);
}

export async function suspend(workspace) {
  put(await post(workspacePath(workspace.id, "/suspend")));
}

export async function resume(workspace) {
  put({ ...workspace, state: "creating", suspended_because: null });
  try {
    put(await post(workspacePath(workspace.id, "/resume?wait=30")));
  } catch (error) {
    put(workspace);
    throw error;
  }
}

export function deleteDialog(workspace) {
  const kept = classOf(workspace)?.kept_for?.[workspace.mode] ?? 0;
  const destroy = h("input", { type: "checkbox", id: "destroy" });
  const text = h("p");
  function say() {
    text.textContent =
      destroy.checked || !kept
        ? "Its processes end and its files are destroyed. This cannot be undone."
        : `Its processes end. Its files are kept for ${duration(kept)}: until then you can restore it.`;
  }
  destroy.addEventListener("change", say);
  say();
  const act = (close) => async () => {
    put(await remove(workspacePath(workspace.id, destroy.checked ? "?destroy=true" : "")));
    close();
    if (location.hash.includes(workspace.id)) location.hash = "#/";
    notice(destroy.checked || !kept ? `${workspace.id} is destroyed.` : `${workspace.id} is deleted, its files are kept for ${duration(kept)}.`);
  };
  dialog(
    "Delete this workspace?",
    [
      h("p", {}, foreign(workspace.labels.name ?? workspace.session ?? workspace.id), h("span", { class: "muted" }, ` ${workspace.id}`)),
      text,
      kept ? h("p", { class: "check" }, destroy, h("label", { for: "destroy" }, "Destroy its files now")) : null,
    ].filter(Boolean),
    (close) => [button("Delete", act(close), { class: "danger" })],
  );
}
