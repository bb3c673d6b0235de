// Elements are built here and nowhere from text as HTML, so no name or message of a workspace is ever markup.

export function h(tag, attributes = {}, ...children) {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (value === undefined || value === null || value === false) continue;
    if (name.startsWith("on")) element.addEventListener(name.slice(2), value);
    else if (name === "class") element.className = value;
    else if (name === "value") element.value = value;
    else element.setAttribute(name, value === true ? "" : value);
  }
  element.append(...children.flat().filter((child) => child !== null && child !== undefined && child !== false));
  return element;
}

// Characters that are not seen, or that reverse what is: a name must not look like another one.
const HIDDEN = /[\p{Cc}\p{Cf}\p{Zl}\p{Zp}\p{Co}\p{Cn}]|^\s|\s$/gu;

export function visible(text) {
  return String(text).replace(HIDDEN, (character) => `\\u{${character.codePointAt(0).toString(16)}}`);
}

// A text that others chose, isolated from the direction of what is around it.
export function foreign(text) {
  return h("bdi", {}, visible(text));
}

export function setText(element, text) {
  if (element.textContent !== text) element.textContent = text;
}

export function announce(text) {
  const region = document.getElementById("announcements");
  region.textContent = "";
  requestAnimationFrame(() => (region.textContent = text));
}

export function notice(text, kind = "info") {
  const close = () => box.remove();
  const box = h(
    "div",
    { class: `notice ${kind}`, role: kind === "error" ? "alert" : "status" },
    h("span", {}, visible(text)),
    h("button", { type: "button", class: "quiet", "aria-label": "Dismiss", onclick: close }, "✕"),
  );
  document.getElementById("notices").append(box);
  if (kind !== "error") setTimeout(close, 6000);
}

export function button(label, act, attributes = {}) {
  const element = h("button", { type: "button", ...attributes }, label);
  element.addEventListener("click", () => busy(element, act));
  return element;
}

// Runs an action once at a time, and shows why it fails.
export async function busy(element, act) {
  if (element.getAttribute("aria-busy") === "true") return undefined;
  element.setAttribute("aria-busy", "true");
  element.disabled = true;
  try {
    return await act();
  } catch (error) {
    if (error.status !== 401) notice(error.message, "error");
    return undefined;
  } finally {
    element.removeAttribute("aria-busy");
    element.disabled = false;
  }
}

let fields = 0;

export function field(label, control, hint) {
  const id = `field-${++fields}`;
  control.id = id;
  if (hint) control.setAttribute("aria-describedby", `${id}-hint`);
  return h(
    "div",
    { class: "field" },
    h("label", { for: id }, label),
    control,
    hint && h("p", { class: "hint", id: `${id}-hint` }, hint),
  );
}

export function select(options, chosen) {
  return h("select", {}, ...options.map(([value, label]) => h("option", { value, selected: value === chosen }, label)));
}

// A modal dialog: it has the focus, Escape closes it, and the focus returns to where it was.
export function dialog(title, content, actions) {
  const heading = h("h2", { id: "dialog-title" }, title);
  const box = h("dialog", { "aria-labelledby": "dialog-title" });
  const form = h("form", { method: "dialog" }, heading, ...content, h("div", { class: "actions" }));
  const close = () => box.close();
  form.lastChild.append(button("Cancel", close, { class: "secondary" }), ...actions(close, form));
  box.append(form);
  form.addEventListener("submit", (event) => event.preventDefault());
  box.addEventListener("close", () => box.remove());
  document.body.append(box);
  box.showModal();
  return box;
}

export function empty(text, ...more) {
  return h("div", { class: "empty" }, h("p", {}, text), ...more);
}

export function table(caption, columns, rows) {
  return h(
    "div",
    { class: "scroll", tabindex: "0", role: "region", "aria-label": caption },
    h(
      "table",
      {},
      h("caption", { class: "visually-hidden" }, caption),
      h("thead", {}, h("tr", {}, ...columns.map((name) => h("th", { scope: "col", class: name === "Actions" ? "actions-column" : "" }, name)))),
      h("tbody", {}, ...rows),
    ),
  );
}
