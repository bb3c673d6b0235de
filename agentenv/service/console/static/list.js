// My workspaces: what each is, how it is, what it costs, and the next thing to do with it.

import { post } from "./api.js";
import { badge, deleteDialog, resume, suspend } from "./actions.js";
import { button, dialog, empty, field, foreign, h, notice, select, setText, table } from "./dom.js";
import { ago, dollars, duration, stateOf, why } from "./format.js";
import { classOf, known, loadCosts, put } from "./store.js";

const COLUMNS = ["Workspace", "State", "Class", "Last used", "Cost this month", "Actions"];
const REFRESH_SECONDS = 60;

export function listPage() {
  const rows = new Map();
  const body = h("tbody");
  const summary = h("p", { class: "muted" });
  const nothing = empty("You have no workspace yet.", button("Create your first workspace", createDialog));
  const framed = table("My workspaces", COLUMNS, []);
  framed.querySelector("tbody").replaceWith(body);
  const showDeleted = h("input", { type: "checkbox", id: "show-deleted", onchange: update });
  const element = h(
    "section",
    {},
    h("div", { class: "heading" }, h("h1", {}, "Workspaces"), button("New workspace", createDialog)),
    summary,
    framed,
    nothing,
    h("p", { class: "check" }, showDeleted, h("label", { for: "show-deleted" }, "Show deleted workspaces whose files are kept")),
  );

  function update() {
    const all = [...known.workspaces.values()].filter((each) => showDeleted.checked || each.state !== "deleted");
    all.sort((one, other) => String(other.created).localeCompare(String(one.created)) || one.id.localeCompare(other.id));
    for (const [id, row] of rows) {
      if (!all.some((each) => each.id === id)) {
        row.element.remove();
        rows.delete(id);
      }
    }
    all.forEach((workspace, place) => {
      let row = rows.get(workspace.id);
      if (!row) rows.set(workspace.id, (row = rowOf(workspace.id)));
      if (body.children[place] !== row.element) body.insertBefore(row.element, body.children[place] ?? null);
      row.update(workspace);
    });
    framed.hidden = all.length === 0;
    nothing.hidden = all.length > 0;
    const running = all.filter((each) => stateOf(each) === "running").length;
    const month = known.month ? `; ${dollars(known.month.spent)} this month${known.month.cap ? ` of ${dollars(known.month.cap)}` : ""}` : "";
    setText(summary, `${all.length} workspace${all.length === 1 ? "" : "s"}, ${running} running${month}`);
  }

  update();
  const timer = setInterval(() => document.visibilityState === "visible" && loadCosts(), REFRESH_SECONDS * 1000);
  return { element, update, title: "My workspaces", close: () => clearInterval(timer) };
}

function rowOf(id) {
  const name = h("a", { href: `#/w/${id}` });
  const more = h("div", { class: "muted small" });
  const state = h("td");
  const of = h("td");
  const used = h("td");
  const cost = costCell();
  const actions = h("td", { class: "row-actions" });
  let offered = "";
  function update(workspace) {
    const title = workspace.labels.name ?? workspace.session ?? workspace.id;
    name.replaceChildren(foreign(title));
    setText(more, [title === workspace.id ? "" : workspace.id, workspace.mode === "user" ? "" : workspace.mode].filter(Boolean).join(" · "));
    state.replaceChildren(badge(workspace), h("span", { class: "muted small" }, why(workspace)));
    setText(of, workspace.size === "small" ? workspace.class : `${workspace.class} (${workspace.size})`);
    setText(used, ago(workspace.last_active ?? workspace.created));
    used.title = workspace.last_active ?? "";
    cost.update(workspace);
    if (offered !== stateOf(workspace)) {
      // Only then: a button that has the focus keeps it.
      offered = stateOf(workspace);
      const hadFocus = actions.contains(document.activeElement);
      actions.replaceChildren(...actionsOf(workspace, title));
      if (hadFocus) actions.querySelector("button, a")?.focus();
    }
  }
  return { element: h("tr", {}, h("th", { scope: "row" }, name, more), state, of, used, cost.element, actions), update };
}

function actionsOf(workspace, title) {
  const label = (verb) => ({ "aria-label": `${verb} ${title}`, class: "secondary" });
  const current = () => known.workspaces.get(workspace.id) ?? workspace;
  const open = h("a", { class: "button secondary", href: `#/w/${workspace.id}/terminal`, "aria-label": `Open a terminal in ${title}` }, "Terminal");
  switch (stateOf(workspace)) {
    case "running":
      return [open, button("Suspend", () => suspend(current()), label("Suspend")), button("Delete", () => deleteDialog(current()), label("Delete"))];
    case "suspended":
    case "failed":
      return [button("Wake", () => resume(current()), label("Wake")), button("Delete", () => deleteDialog(current()), label("Delete"))];
    case "deleted":
      return [button("Restore", () => resume(current()), label("Restore"))];
    default:
      return [];
  }
}

function costCell() {
  const amount = h("span");
  const meter = h("meter", { min: "0" });
  return {
    element: h("td", {}, amount, meter),
    update(workspace) {
      const spent = known.costs.get(workspace.id) ?? (known.month ? 0 : null);
      const budget = workspace.budget ?? classOf(workspace)?.budget ?? null;
      setText(amount, spent === null ? "–" : budget === null ? dollars(spent) : `${dollars(spent)} of ${dollars(budget)}`);
      meter.hidden = spent === null || budget === null;
      if (!meter.hidden) {
        meter.max = Number(budget) || 1;
        meter.high = meter.max * 0.8;
        meter.optimum = 0;
        meter.value = Math.min(spent, meter.max);
        meter.setAttribute("aria-label", `${dollars(spent)} of ${dollars(budget)}`);
      }
    },
  };
}

export function createDialog() {
  if (!known.classes.length) {
    notice("No class is available to you: ask the platform team.", "error");
    return;
  }
  const name = h("input", { maxlength: "60", autocomplete: "off", pattern: "[A-Za-z0-9]([A-Za-z0-9._\\-]{0,58}[A-Za-z0-9])?" });
  const of = select(known.classes.map((each) => [each.name, `${each.name} (${each.tier})`]), known.classes[0].name);
  const size = h("select");
  const budget = h("input", { inputmode: "decimal", pattern: "[0-9]+(\\.[0-9]{1,2})?", autocomplete: "off" });
  const about = h("p", { class: "hint" });
  function chosen() {
    const found = known.classes.find((each) => each.name === of.value);
    size.replaceChildren(...found.sizes.map((each) => h("option", { value: each }, each)));
    budget.placeholder = found.budget ? `at most ${found.budget}` : "no limit";
    about.textContent = `Asleep after ${duration(found.idle_after)} without use. ${found.kept ? "Its home is kept." : "Its files end with it."}`;
  }
  of.addEventListener("change", chosen);
  chosen();
  const create = (close, form) => async () => {
    if (!form.reportValidity()) return;
    const label = name.value.trim();
    const key = label || `console-${crypto.randomUUID()}`;
    const { modes } = known.classes.find((each) => each.name === of.value);
    const mode = ["user", "agent", "session"].find((each) => modes.includes(each));
    const body = { class: of.value, mode, size: size.value, [mode === "user" ? "key" : mode]: key };
    if (label) body.labels = { name: label };
    if (budget.value.trim()) body.budget = budget.value.trim();
    const workspace = await post("/v1/workspaces?wait=0", body);
    put(workspace);
    close();
    location.hash = `#/w/${workspace.id}/terminal`;
  };
  dialog(
    "New workspace",
    [
      field("Name", name, "Letters, digits, dots and hyphens. The same name opens the same workspace."),
      field("Class", of),
      about,
      field("Size", size),
      field("Budget a month, in dollars", budget),
    ],
    (close, form) => [button("Create", create(close, form), { type: "submit" })],
  );
}
