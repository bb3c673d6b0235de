// One workspace: its terminal, files, ports, events and details, as tabs.

import { get, workspacePath } from "./api.js";
import { badge, deleteDialog, resume, suspend } from "./actions.js";
import { button, empty, foreign, h, notice, table, visible } from "./dom.js";
import { changes } from "./events.js";
import { at, ago, dollars, duration, stateOf, why } from "./format.js";
import { classOf, known, put } from "./store.js";

const TABS = [
  ["terminal", "Terminal", () => import("./terminal.js")],
  ["files", "Files", () => import("./files.js")],
  ["ports", "Ports", () => import("./ports.js")],
  ["events", "Events", async () => ({ open: eventsTab })],
  ["details", "Details", async () => ({ open: detailsTab })],
];

export function workspacePage(id, wanted) {
  const heading = h("h1");
  const state = h("span", { class: "state" });
  const actions = h("div", { class: "actions" });
  const tabs = h("div", { role: "tablist", "aria-label": "Parts of the workspace", class: "tabs" });
  const panel = h("div", { role: "tabpanel", id: "panel", class: "panel" });
  const element = h(
    "section",
    {},
    h("nav", { "aria-label": "Breadcrumb", class: "breadcrumb" }, h("a", { href: "#/" }, "Workspaces"), " / ", h("span", {}, id)),
    h("div", { class: "heading" }, h("div", {}, heading, state), actions),
    tabs,
    panel,
  );
  let tab = null;
  let current = "";
  let offered = "";
  let number = 0;

  for (const [name, label] of TABS) {
    tabs.append(h("button", { type: "button", role: "tab", id: `tab-${name}`, "aria-controls": "panel", onclick: () => go(name), onkeydown: arrows }, label));
  }

  function go(name) {
    history.replaceState(null, "", `#/w/${id}/${name}`);
    open(name);
  }

  function arrows(event) {
    const names = TABS.map(([name]) => name);
    const step = { ArrowRight: 1, ArrowLeft: -1 }[event.key];
    const next = step ? names[(names.indexOf(current) + step + names.length) % names.length] : { Home: names[0], End: names.at(-1) }[event.key];
    if (!next) return;
    event.preventDefault();
    go(next);
    document.getElementById(`tab-${next}`).focus();
  }

  async function open(name) {
    const mine = ++number;
    current = name;
    for (const each of tabs.children) {
      const chosen = each.id === `tab-${name}`;
      each.setAttribute("aria-selected", String(chosen));
      each.tabIndex = chosen ? 0 : -1;
    }
    panel.setAttribute("aria-labelledby", `tab-${name}`);
    tab?.close?.();
    tab = null;
    const module = await TABS.find(([each]) => each === name)[2]();
    if (mine !== number) return;
    tab = module.open(id, panel);
    tab?.update?.(known.workspaces.get(id));
  }

  function update(changed) {
    if (changed && changed !== id) return;
    const workspace = known.workspaces.get(id);
    if (!workspace) {
      tab?.close?.();
      tab = null;
      panel.replaceChildren(empty("There is no such workspace, or you may not see it."));
      heading.replaceChildren(id);
      state.replaceChildren();
      actions.replaceChildren();
      return;
    }
    heading.replaceChildren(foreign(workspace.labels.name ?? workspace.session ?? workspace.id));
    state.replaceChildren(badge(workspace), " ", h("span", { class: "muted small" }, [workspace.class, why(workspace)].filter(Boolean).join(" · ")));
    if (offered !== stateOf(workspace)) {
      offered = stateOf(workspace);
      actions.replaceChildren(...actionsOf(workspace));
    }
    tab?.update?.(workspace);
  }

  function actionsOf(workspace) {
    const now = () => known.workspaces.get(id) ?? workspace;
    const end = button("Delete", () => deleteDialog(now()), { class: "secondary" });
    switch (stateOf(workspace)) {
      case "running":
        return [button("Suspend", () => suspend(now()), { class: "secondary" }), end];
      case "suspended":
      case "failed":
        return [button("Wake", () => resume(now())), end];
      case "deleted":
        return [button("Restore", () => resume(now()))];
      default:
        return [];
    }
  }

  function move([other, name]) {
    if (other !== id) return false;
    open(name ?? "terminal");
    return true;
  }

  update();
  if (!known.workspaces.has(id)) get(workspacePath(id)).then(put).catch((error) => notice(error.message, "error"));
  open(wanted ?? "terminal");
  return { element, update, move, title: known.workspaces.get(id)?.labels.name ?? id, close: () => tab?.close?.() };
}

function eventsTab(id, panel) {
  const body = h("tbody");
  const framed = table("Events of the last hour, the latest first", ["When", "What", "Message"], []);
  framed.querySelector("tbody").replaceWith(body);
  const row = (event) =>
    h(
      "tr",
      { class: event.warning ? "warning" : null },
      h("td", {}, h("time", { datetime: event.at, title: event.at }, at(event.at))),
      h("th", { scope: "row" }, event.reason),
      h("td", { class: "wrap" }, visible(event.message)),
    );
  async function read() {
    const events = await get(workspacePath(id, "/events"));
    body.replaceChildren(...events.items.map(row));
    if (!events.items.length) body.append(h("tr", {}, h("td", { colspan: "3", class: "muted" }, "Nothing happened in the last hour.")));
  }
  const onEvent = ({ detail }) => detail.workspace === id && body.prepend(row(detail));
  changes.addEventListener("event", onEvent);
  panel.replaceChildren(framed);
  read();
  return { close: () => changes.removeEventListener("event", onEvent) };
}

function detailsTab(id, panel) {
  const list = h("dl", { class: "details" });
  panel.replaceChildren(list);
  function update(workspace) {
    if (!workspace) return;
    const of = classOf(workspace);
    const spent = known.costs.get(id);
    const idle = workspace.idle_after ?? of?.idle_after;
    const rows = {
      Id: workspace.id,
      Class: of ? `${workspace.class} (${of.tier})` : workspace.class,
      Size: workspace.size_pending ? `${workspace.size}: ${workspace.size_pending}` : workspace.size,
      Mode: workspace.mode,
      Created: at(workspace.created),
      "Last used": ago(workspace.last_active),
      "Asleep after": idle ? `${duration(idle)} without use` : "–",
      Deadline: at(workspace.deadline),
      "Cost this month": spent === undefined ? "–" : dollars(spent),
      "Budget a month": dollars(workspace.budget ?? of?.budget),
      "Started cold": workspace.cold ?? "no",
      "Works for": workspace.parent ?? "–",
      Owner: workspace.owner,
    };
    list.replaceChildren(...Object.entries(rows).flatMap(([name, value]) => [h("dt", {}, name), h("dd", {}, visible(value))]));
  }
  return { update };
}
