// The files of a workspace: browse, upload, download. Names are anybody's, and shown with what is hidden in them.

import { answer, sandboxPath, session, Refusal } from "./api.js";
import { resume } from "./actions.js";
import { unary } from "./connect.js";
import { announce, button, dialog, empty, field, foreign, h, notice, setText, table, visible } from "./dom.js";
import { at, bytes, stateOf } from "./format.js";
import { known } from "./store.js";

const KINDS = { FILE_TYPE_DIRECTORY: "folder", FILE_TYPE_FILE: "file", FILE_TYPE_SYMLINK: "link" };
const MOST_SHOWN = 2000;

const join = (folder, name) => (folder.endsWith("/") ? folder + name : `${folder}/${name}`);
const parent = (path) => path.replace(/\/[^/]+\/?$/, "") || "/";
const filePath = (id, path) => sandboxPath(id, `/files?path=${encodeURIComponent(path)}`);

export function open(id, panel) {
  const trail = h("nav", { "aria-label": "Folder", class: "trail" });
  const body = h("tbody");
  const framed = table("Files of the folder", ["Name", "Size", "Changed", "Actions"], []);
  framed.querySelector("tbody").replaceWith(body);
  const chooser = h("input", { type: "file", multiple: true, class: "visually-hidden", id: "upload", tabindex: "-1", "aria-hidden": "true" });
  const progress = h("div", { class: "progress", hidden: true });
  const note = h("p", { class: "muted small" });
  const asleep = empty("The workspace does not run: its files are there when it is awake.", button("Wake it", () => resume(known.workspaces.get(id))));
  const listing = h(
    "div",
    { class: "files" },
    h("div", { class: "heading" }, trail, h("div", { class: "actions" }, button("Upload", () => chooser.click(), {}), chooser, button("New folder", newFolder, { class: "secondary" }), button("Refresh", read, { class: "secondary" }))),
    progress,
    framed,
    note,
  );
  let folder = sessionStorage.getItem(`folder ${id}`);
  let running = false;

  chooser.addEventListener("change", () => upload([...chooser.files]));
  listing.addEventListener("dragover", (event) => {
    event.preventDefault();
    listing.classList.add("target");
  });
  listing.addEventListener("dragleave", () => listing.classList.remove("target"));
  listing.addEventListener("drop", (event) => {
    event.preventDefault();
    listing.classList.remove("target");
    upload([...event.dataTransfer.files]);
  });

  async function go(path) {
    folder = path;
    sessionStorage.setItem(`folder ${id}`, path);
    await read();
    trail.querySelector("button:last-of-type")?.focus();
  }

  async function read() {
    if (folder === null) folder = (await unary(id, "filesystem.Filesystem/Stat", { path: "." })).entry.path;
    let entries;
    try {
      ({ entries = [] } = await unary(id, "filesystem.Filesystem/ListDir", { path: folder, depth: 1 }));
    } catch (error) {
      if (error.code === "not_found" && folder !== "/") return go(parent(folder));
      throw error;
    }
    const rank = (entry) => (KINDS[entry.type] === "folder" ? 0 : 1);
    entries.sort((one, other) => rank(one) - rank(other) || String(one.name).localeCompare(String(other.name)));
    body.replaceChildren(...entries.slice(0, MOST_SHOWN).map(row));
    if (!entries.length) body.append(h("tr", {}, h("td", { colspan: "4", class: "muted" }, "This folder is empty.")));
    setText(note, entries.length > MOST_SHOWN ? `Only the first ${MOST_SHOWN} of ${entries.length} are shown.` : "");
    showTrail();
    announce(`${entries.length} entries in ${visible(folder)}`);
    return undefined;
  }

  function showTrail() {
    const parts = folder.split("/").filter(Boolean);
    const steps = [h("button", { type: "button", class: "quiet", onclick: () => go("/") }, "/")];
    parts.forEach((name, place) => {
      const path = `/${parts.slice(0, place + 1).join("/")}`;
      const isLast = place === parts.length - 1;
      steps.push(h("button", { type: "button", class: "quiet", "aria-current": isLast ? "location" : null, onclick: () => go(path) }, foreign(name)));
      if (!isLast) steps.push(h("span", { "aria-hidden": "true" }, "/"));
    });
    trail.replaceChildren(...steps);
  }

  function row(entry) {
    const kind = KINDS[entry.type] ?? "other";
    const path = entry.path ?? join(folder, entry.name);
    const name = foreign(entry.name);
    const shown = visible(entry.name);
    const opens = kind === "folder" ? h("button", { type: "button", class: "quiet name", onclick: () => go(path) }, name) : h("span", { class: "name" }, name);
    const target = entry.symlinkTarget ? h("span", { class: "muted small" }, " → ", foreign(entry.symlinkTarget)) : null;
    const actions = [
      kind === "folder" ? null : button("Download", () => download(path, entry.name), { class: "secondary", "aria-label": `Download ${shown}` }),
      button("Delete", () => removeDialog(path, entry.name, kind), { class: "secondary", "aria-label": `Delete ${shown}` }),
    ].filter(Boolean);
    return h(
      "tr",
      {},
      h("th", { scope: "row", class: "wrap" }, h("span", { class: `kind ${kind}`, role: "img", "aria-label": kind }), opens, target),
      h("td", {}, kind === "folder" ? "" : bytes(entry.size ?? 0)),
      h("td", {}, at(entry.modifiedTime)),
      h("td", { class: "row-actions" }, ...actions),
    );
  }

  // The browser stores it by itself, however large; it never opens it here.
  async function download(path, name) {
    const { entry } = await unary(id, "filesystem.Filesystem/Stat", { path });
    if (KINDS[entry.type] === "folder") return go(path);
    const link = h("a", { href: filePath(id, path), download: name });
    document.body.append(link);
    link.click();
    link.remove();
    return undefined;
  }

  async function upload(files) {
    for (const file of files) {
      const bar = h("progress", { max: String(file.size || 1), "aria-label": `Uploading ${visible(file.name)}` });
      progress.replaceChildren(h("span", {}, "Uploading ", foreign(file.name)), bar);
      progress.hidden = false;
      try {
        await sendFile(join(folder, file.name), file, (loaded) => (bar.value = loaded));
        announce(`Uploaded ${visible(file.name)}`);
      } catch (error) {
        notice(`${visible(file.name)}: ${error.message}`, "error");
      }
    }
    progress.hidden = true;
    chooser.value = "";
    await read();
  }

  function sendFile(path, file, loaded) {
    return new Promise((resolve, reject) => {
      const request = new XMLHttpRequest();
      request.open("POST", filePath(id, path));
      request.setRequestHeader("content-type", "application/octet-stream");
      request.upload.onprogress = (event) => loaded(event.loaded);
      request.onerror = () => reject(new Refusal(0, { detail: "the connection was lost" }));
      request.onload = () => {
        if (request.status === 401) session.dispatchEvent(new Event("ended"));
        answer(new Response(request.status === 204 ? null : request.responseText, { status: request.status })).then(resolve, reject);
      };
      request.send(file);
    });
  }

  function newFolder() {
    const name = h("input", { required: true, autocomplete: "off" });
    const create = (close, form) => async () => {
      if (!form.reportValidity()) return;
      await unary(id, "filesystem.Filesystem/MakeDir", { path: join(folder, name.value) });
      close();
      await read();
    };
    dialog("New folder", [field("Name", name)], (close, form) => [button("Create", create(close, form), { type: "submit" })]);
  }

  function removeDialog(path, name, kind) {
    const act = (close) => async () => {
      await unary(id, "filesystem.Filesystem/Remove", { path });
      close();
      await read();
    };
    const what = kind === "folder" ? "This folder and all that is in it are deleted: " : "This is deleted: ";
    dialog("Delete?", [h("p", { class: "wrap" }, what, h("strong", {}, foreign(name)))], (close) => [button("Delete", act(close), { class: "danger" })]);
  }

  function update(workspace) {
    const isRunning = stateOf(workspace ?? {}) === "running";
    if (isRunning && !running) {
      panel.replaceChildren(listing);
      read().catch((error) => notice(error.message, "error"));
    } else if (!isRunning) {
      asleep.querySelector("button").hidden = !["suspended", "failed"].includes(stateOf(workspace ?? {}));
      panel.replaceChildren(asleep);
    }
    running = isRunning;
  }

  return { update };
}
