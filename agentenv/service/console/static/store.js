// What this tab knows: the caller, the classes, the workspaces and what they cost. Pages are told of each change.

import { everything, get } from "./api.js";
import { changes } from "./events.js";

export const known = { me: null, classes: [], workspaces: new Map(), costs: new Map(), month: null, loaded: false };
export const updates = new EventTarget();

function changed(id) {
  updates.dispatchEvent(new CustomEvent("change", { detail: id }));
}

export async function load() {
  const [me, classes, workspaces] = await Promise.all([
    get("/v1/me"),
    get("/v1/classes"),
    everything("/v1/workspaces?limit=100&deleted=true"),
  ]);
  known.me = me;
  known.classes = classes.items;
  known.workspaces = new Map(workspaces.map((workspace) => [workspace.id, workspace]));
  known.loaded = true;
  changed();
  loadCosts();
}

// Environments without a ledger have no costs to show.
export async function loadCosts() {
  try {
    const usage = await get("/v1/usage");
    known.costs = new Map();
    for (const line of usage.lines) {
      if (line.dollars !== null) known.costs.set(line.workspace, (known.costs.get(line.workspace) ?? 0) + Number(line.dollars));
    }
    known.month = usage.month;
    changed();
  } catch {
    known.month = null;
  }
}

export function put(workspace) {
  known.workspaces.set(workspace.id, workspace);
  changed(workspace.id);
}

export const isOperator = () => (known.me?.roles ?? []).some((role) => role !== "user");
export const classOf = (workspace) => known.classes.find((each) => each.name === workspace.class);

changes.addEventListener("workspace", ({ detail }) => put(detail));
changes.addEventListener("removed", ({ detail }) => {
  known.workspaces.delete(detail.workspace);
  changed(detail.workspace);
});
// After a pause states are read again; events continue by themselves.
let pauses = 0;
changes.addEventListener("ready", () => {
  if (pauses++ > 0 && known.loaded) load().catch(() => undefined);
});
