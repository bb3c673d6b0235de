// What agents ask for, and wait: approve it once or for an hour, or deny it.

import { get, post } from "./api.js";
import { announce, button, empty, h, visible } from "./dom.js";
import { changes } from "./events.js";
import { ago, at } from "./format.js";

const REFRESH_SECONDS = 5;
const LABELS = { asked: "waits", approved: "approved", denied: "denied", expired: "expired" };

export function approvalsPage() {
  const waiting = h("div", { class: "cards", "aria-live": "polite" });
  const answered = h("div");
  const nothing = empty("Nothing waits for an approval.");
  const element = h("section", {}, h("div", { class: "heading" }, h("h1", {}, "Approvals")), nothing, waiting, h("h2", {}, "Answered lately"), answered);
  const cards = new Map();

  function card(row) {
    const decide = (answer, forHow) => async () => {
      await post(`/v1/approvals/${row.id}`, { answer, for: forHow });
      announce(answer === "approve" ? "Approved" : "Denied");
      await read();
    };
    const named = `${row.tool} in ${row.workspace}`;
    return h(
      "article",
      { class: "card", "aria-label": `Approval of ${named}` },
      h("h2", {}, row.tool),
      h("p", { class: "muted small" }, h("a", { href: `#/w/${row.workspace}` }, row.workspace), ` · asked ${ago(row.created)} · until ${at(row.expires)}`),
      h("pre", { tabindex: "0", "aria-label": "What is asked" }, row.text.split("\n").map((line) => `${visible(line)}\n`).join("")),
      h(
        "div",
        { class: "actions" },
        button("Approve once", decide("approve", "once"), { "aria-label": `Approve ${named} once` }),
        button("For an hour", decide("approve", "hour"), { class: "secondary", "aria-label": `Approve ${named} for an hour` }),
        button("Deny", decide("deny", "once"), { class: "secondary", "aria-label": `Deny ${named}` }),
      ),
    );
  }

  async function read() {
    const rows = (await get("/v1/approvals")).items;
    const open = rows.filter((row) => row.state === "asked");
    for (const [id, each] of cards) {
      if (!open.some((row) => row.id === id)) {
        each.remove();
        cards.delete(id);
      }
    }
    for (const row of open) {
      if (cards.has(row.id)) continue;
      const made = card(row);
      cards.set(row.id, made);
      waiting.append(made);
    }
    nothing.hidden = open.length > 0;
    const line = (row) =>
      h("li", {}, h("span", { class: `badge ${row.state}` }, LABELS[row.state]), ` ${row.tool} in `, h("a", { href: `#/w/${row.workspace}` }, row.workspace), h("span", { class: "muted small" }, row.by ? ` by ${row.by}${row.until ? ` until ${at(row.until)}` : ", once"}` : ""));
    const rest = rows.filter((row) => row.state !== "asked");
    answered.replaceChildren(rest.length ? h("ul", { class: "plain" }, ...rest.map(line)) : h("p", { class: "muted" }, "None in the last hour."));
  }

  const reread = () => read().catch(() => undefined);
  const onEvent = ({ detail }) => /^Approv/.test(detail.reason) && reread();
  const timer = setInterval(() => document.visibilityState === "visible" && reread(), REFRESH_SECONDS * 1000);
  changes.addEventListener("event", onEvent);
  read().catch((error) => (nothing.firstChild.textContent = error.message));
  return {
    element,
    title: "Approvals",
    close() {
      clearInterval(timer);
      changes.removeEventListener("event", onEvent);
    },
  };
}
