// For operators: the pools and releases of the environment, and the workspaces that failed.

import { get } from "./api.js";
import { button, empty, foreign, h, notice, table, visible } from "./dom.js";
import { changes } from "./events.js";

const REFRESH_SECONDS = 15;

export function operationsPage() {
  const pools = h("div");
  const releases = h("div");
  const failures = h("div");
  const element = h(
    "section",
    {},
    h("div", { class: "heading" }, h("h1", {}, "Operations"), button("Refresh", read, { class: "secondary" })),
    h("h2", {}, "Warm pools"),
    pools,
    h("h2", {}, "Releases"),
    releases,
    h("h2", {}, "Failures"),
    failures,
  );

  async function read() {
    const found = await get("/v1/operations");
    pools.replaceChildren(
      found.pools.length
        ? table("Warm pools", ["Pool", "Class", "Channel", "Ready", "State"], found.pools.map((pool) => h("tr", {}, h("th", { scope: "row" }, pool.name), h("td", {}, pool.class), h("td", {}, pool.channel), h("td", {}, `${pool.ready} of ${pool.size}`, h("meter", { min: "0", max: String(pool.size || 1), value: String(pool.ready), "aria-label": `${pool.ready} of ${pool.size} ready` })), h("td", {}, pool.retiring ? "retiring" : "current"))))
        : empty("There is no warm pool: workspaces start cold."),
    );
    releases.replaceChildren(
      table("Releases", ["Class", "Channel", "Release", "Running", "Asleep", "Starting", "Failed"], found.releases.map((release) => h("tr", {}, h("th", { scope: "row" }, release.class), h("td", {}, release.channel), h("td", {}, release.release), ...["running", "suspended", "creating", "failed"].map((state) => h("td", {}, String(release.workspaces[state] ?? 0)))))),
    );
    failures.replaceChildren(
      found.failures.length
        ? table("Workspaces that failed", ["Workspace", "Owner", "Class", "Why"], found.failures.map((workspace) => h("tr", {}, h("th", { scope: "row" }, h("a", { href: `#/w/${workspace.id}/events` }, foreign(workspace.id))), h("td", {}, workspace.owner), h("td", {}, workspace.class), h("td", { class: "wrap" }, visible(workspace.why ?? "")))))
        : empty("No workspace failed."),
    );
  }

  const reread = () => document.visibilityState === "visible" && read().catch(() => undefined);
  const timer = setInterval(reread, REFRESH_SECONDS * 1000);
  changes.addEventListener("workspace", reread);
  read().catch((error) => notice(error.message, "error"));
  return {
    element,
    title: "Operations",
    close() {
      clearInterval(timer);
      changes.removeEventListener("workspace", reread);
    },
  };
}
