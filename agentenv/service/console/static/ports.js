// The ports of a workspace, with whom they are shared, and the links to them.

import { get, post, put, remove, workspacePath } from "./api.js";
import { button, field, h, notice, select, table, visible } from "./dom.js";
import { at } from "./format.js";
import { classOf, known } from "./store.js";

const LABELS = {
  private: "Private: those who may use the workspace",
  team: "Team: also members of groups",
  link: "Link: also who has a link",
  public: "Public: everybody",
};
const LIVES = [["3600", "an hour"], ["86400", "a day"], ["604800", "a week"], ["2592000", "30 days"]];

export function open(id, panel) {
  const ports = h("tbody");
  const links = h("tbody");
  const portsTable = table("Shared ports", ["Port", "Shared with", "Wakes it", "Actions"], []);
  const linksTable = table("Links", ["Link", "Port", "Wakes it", "Until", "Actions"], []);
  portsTable.querySelector("tbody").replaceWith(ports);
  linksTable.querySelector("tbody").replaceWith(links);
  const linksSection = h("section", {}, h("h2", {}, "Links"), linksTable);
  const fresh = h("div", { class: "card fresh", hidden: true, role: "status" });
  const allowed = classOf(known.workspaces.get(id) ?? {})?.sharing ?? Object.keys(LABELS);
  const number = h("input", { type: "number", min: "1", max: "65535", required: true, value: "8080" });
  const sharing = select(Object.entries(LABELS).filter(([name]) => name === "private" || allowed.includes(name)), "private");
  const teams = h("input", { autocomplete: "off" });
  const teamsField = field("Groups, separated by commas", teams);
  const wake = h("input", { type: "checkbox", id: "port-wakes" });
  const open_ = h("a", { class: "button secondary", target: "_blank", rel: "noopener noreferrer" }, "Open");
  const share = button("Apply", apply, { type: "submit" });
  const form = h(
    "form",
    { class: "card inline" },
    h("h2", {}, "Open or share a port"),
    h("div", { class: "fields" }, field("Port", number), field("Shared with", sharing), teamsField, h("span", { class: "check" }, wake, h("label", { for: "port-wakes" }, "They also wake it"))),
    h("div", { class: "actions" }, share, open_),
  );
  form.addEventListener("submit", (event) => event.preventDefault());
  number.addEventListener("input", offer);
  sharing.addEventListener("change", offer);

  const url = (port) => known.me.gateway?.ports.replace("{port}", port).replace("{workspace}", id);

  function offer() {
    teamsField.hidden = sharing.value !== "team";
    const target = number.checkValidity() ? url(number.value) : null;
    open_.hidden = !target;
    if (target) open_.href = `${target}/`;
  }

  async function apply() {
    if (!form.reportValidity()) return;
    const names = sharing.value === "team" ? teams.value.split(",").map((name) => name.trim()).filter(Boolean) : [];
    await put(workspacePath(id, `/ports/${Number(number.value)}`), { sharing: sharing.value, teams: names, wake: wake.checked });
    notice(sharing.value === "private" ? `Port ${number.value} is private.` : `Port ${number.value} is shared.`);
    await read();
  }

  async function revokePort(port) {
    await put(workspacePath(id, `/ports/${port}`), { sharing: "private" });
    notice(`Port ${port} is private again; what is open by it ends within a minute.`);
    await read();
  }

  async function newLink(port, life) {
    const link = await post(workspacePath(id, "/links"), { port, expires_in: Number(life), wake: true });
    const text = h("input", { readonly: true, value: link.url, "aria-label": "The new link" });
    const copy = button("Copy", async () => {
      await navigator.clipboard.writeText(link.url);
      notice("The link is copied.");
    });
    fresh.replaceChildren(h("p", {}, "The link, which cannot be read again:"), h("div", { class: "copy" }, text, copy));
    fresh.hidden = false;
    text.select();
    await read();
  }

  function portRow(row) {
    const life = select(LIVES, "86400");
    life.setAttribute("aria-label", `How long a new link to port ${row.port} is valid`);
    const who = row.sharing === "team" ? `${row.sharing}: ${row.teams.map(visible).join(", ")}` : row.sharing;
    const linked = row.sharing === "link" ? [life, button("New link", () => newLink(row.port, life.value), { class: "secondary" })] : [];
    return h(
      "tr",
      {},
      h("th", { scope: "row" }, h("a", { href: row.url, target: "_blank", rel: "noopener noreferrer" }, String(row.port))),
      h("td", {}, who),
      h("td", {}, row.wake ? "yes" : "no"),
      h("td", { class: "row-actions" }, ...linked, button("Make private", () => revokePort(row.port), { class: "secondary", "aria-label": `Make port ${row.port} private` })),
    );
  }

  function linkRow(row) {
    const end = async () => {
      await remove(workspacePath(id, `/links/${row.id}`));
      fresh.hidden = true;
      await read();
    };
    return h(
      "tr",
      {},
      h("th", { scope: "row" }, row.id),
      h("td", {}, String(row.port)),
      h("td", {}, row.wake ? "yes" : "no"),
      h("td", {}, at(row.expires)),
      h("td", { class: "row-actions" }, button("Revoke", end, { class: "secondary", "aria-label": `Revoke link ${row.id}` })),
    );
  }

  async function read() {
    const shared = (await get(workspacePath(id, "/ports"))).items;
    ports.replaceChildren(...shared.map(portRow));
    if (!shared.length) ports.append(h("tr", {}, h("td", { colspan: "4", class: "muted" }, "No port is shared: only you open them.")));
    const valid = (await get(workspacePath(id, "/links")).catch(() => ({ items: [] }))).items;
    links.replaceChildren(...valid.map(linkRow));
    linksSection.hidden = !valid.length;
  }

  panel.replaceChildren(form, fresh, h("h2", {}, "Shared ports"), portsTable, linksSection);
  offer();
  read().catch((error) => notice(error.message, "error"));
  return {};
}
