// The API keys of the caller: for programs, with scopes and an end.

import { get, post, remove } from "./api.js";
import { button, dialog, empty, field, h, notice, select, table, visible } from "./dom.js";
import { ago, at } from "./format.js";

const SCOPES = [
  ["read", "See workspaces"],
  ["use", "Enter and suspend them"],
  ["create", "Create them"],
  ["wake", "Wake them"],
  ["admin", "All else with your own"],
];
const LIVES = [["604800", "a week"], ["2592000", "30 days"], ["7776000", "90 days"], ["31536000", "a year"]];

export function keysPage() {
  const body = h("tbody");
  const framed = table("API keys", ["Name", "Scopes", "Created", "Last used", "Until", "Actions"], []);
  framed.querySelector("tbody").replaceWith(body);
  const nothing = empty("You have no API key. Programs and agents use one as bearer token.");
  const fresh = h("div", { class: "card fresh", hidden: true, role: "status" });
  const element = h("section", {}, h("div", { class: "heading" }, h("h1", {}, "API keys"), button("New key", create)), fresh, framed, nothing);

  function row(key) {
    const revoke = () =>
      dialog("Revoke this key?", [h("p", {}, "Programs that use ", h("strong", {}, visible(key.name)), " are refused within seconds.")], (close) => [
        button("Revoke", async () => {
          await remove(`/v1/keys/${key.id}`);
          close();
          await read();
        }, { class: "danger" }),
      ]);
    return h(
      "tr",
      {},
      h("th", { scope: "row" }, visible(key.name), h("div", { class: "muted small" }, key.id)),
      h("td", {}, key.scopes.join(", ")),
      h("td", {}, at(key.created)),
      h("td", {}, key.last_used ? ago(key.last_used) : "never"),
      h("td", {}, at(key.expires)),
      h("td", { class: "row-actions" }, button("Revoke", revoke, { class: "secondary", "aria-label": `Revoke ${visible(key.name)}` })),
    );
  }

  async function read() {
    const keys = (await get("/v1/keys")).items;
    body.replaceChildren(...keys.map(row));
    framed.hidden = !keys.length;
    nothing.hidden = keys.length > 0;
  }

  function create() {
    const name = h("input", { required: true, maxlength: "100", autocomplete: "off" });
    const life = select(LIVES, "7776000");
    const boxes = SCOPES.map(([scope, label]) => {
      const box = h("input", { type: "checkbox", id: `scope-${scope}`, value: scope, checked: scope !== "admin" });
      return [box, h("p", { class: "check" }, box, h("label", { for: box.id }, label, h("span", { class: "muted" }, ` ${scope}`)))];
    });
    const act = (close, form) => async () => {
      if (!form.reportValidity()) return;
      const scopes = boxes.map(([box]) => box).filter((box) => box.checked).map((box) => box.getAttribute("value"));
      const key = await post("/v1/keys", { name: name.value, scopes, expires_in: Number(life.value) });
      close();
      const text = h("input", { readonly: true, value: key.key, "aria-label": "The new key" });
      const copy = button("Copy", async () => {
        await navigator.clipboard.writeText(key.key);
        notice("The key is copied.");
      });
      fresh.replaceChildren(h("p", {}, "The key, which cannot be read again:"), h("div", { class: "copy" }, text, copy));
      fresh.hidden = false;
      text.select();
      await read();
    };
    const scopes = h("fieldset", {}, h("legend", {}, "It may"), ...boxes.map(([, line]) => line));
    dialog("New API key", [field("Name", name, "What it is for."), scopes, field("Valid for", life)], (close, form) => [button("Create", act(close, form), { type: "submit" })]);
  }

  read().catch((error) => {
    framed.hidden = true;
    nothing.firstChild.textContent = error.message;
  });
  return { element, title: "API keys" };
}
