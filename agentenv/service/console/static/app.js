// The frame of the console: who is signed in, the navigation, and which page is shown. Pages are modules of their own.

import { get, post, session } from "./api.js";
import { announce, button, h, notice, visible } from "./dom.js";
import { follow, unfollow } from "./events.js";
import { listPage } from "./list.js";
import { isOperator, known, load, updates } from "./store.js";

const PAGES = [
  [/^\/?$/, async () => listPage],
  [/^\/w\/([a-z0-9-]+)(?:\/(terminal|files|ports|events|details))?$/, async () => (await import("./workspace.js")).workspacePage],
  [/^\/approvals$/, async () => (await import("./approvals.js")).approvalsPage],
  [/^\/keys$/, async () => (await import("./keys.js")).keysPage],
  [/^\/operations$/, async () => (await import("./operations.js")).operationsPage],
];
const LINKS = [
  ["#/", "Workspaces", () => true],
  ["#/approvals", "Approvals", () => true],
  ["#/keys", "API keys", () => true],
  ["#/operations", "Operations", isOperator],
];
const main = document.getElementById("main");
const navigation = document.getElementById("navigation");
const account = document.getElementById("account");
let page = null;
let signedOut = false;
let shown = 0;

async function show() {
  const number = ++shown;
  const path = decodeURI(location.hash.slice(1)) || "/";
  const found = PAGES.map(([pattern, module]) => [path.match(pattern), module]).find(([match]) => match);
  if (!found) {
    location.hash = "#/";
    return;
  }
  const [match, module] = found;
  const next = await module();
  if (number !== shown) return;
  const wanted = [...match].slice(1);
  // The page of the same workspace only changes its tab.
  if (page?.move?.(wanted)) {
    markNavigation(path);
    return;
  }
  page?.close?.();
  page = next(...wanted);
  main.replaceChildren(page.element);
  document.title = `${page.title} – Workspaces`;
  markNavigation(path);
  main.focus({ preventScroll: true });
  scrollTo(0, 0);
  announce(page.title);
}

function markNavigation(path) {
  const links = LINKS.filter(([, , allowed]) => allowed()).map(([target, label]) => {
    const isCurrent = target === "#/" ? path === "/" || path.startsWith("/w/") : `#${path}` === target;
    return h("a", { href: target, "aria-current": isCurrent ? "page" : null }, label);
  });
  navigation.replaceChildren(...links);
}

async function start() {
  try {
    await load();
  } catch (error) {
    if (error.status !== 401) {
      main.replaceChildren(h("h1", {}, "The service does not answer"), h("p", {}, visible(error.message)), button("Try again", start));
    }
    return;
  }
  signedOut = false;
  navigation.hidden = account.hidden = false;
  account.replaceChildren(
    h("span", { class: "muted owner", title: "Your id" }, known.me.owner),
    button("Sign out", signOut, { class: "quiet" }),
  );
  follow();
  await show();
}

async function signOut() {
  unfollow(true);
  await fetch("/v1/sign-out", { method: "POST", redirect: "manual", credentials: "same-origin" });
  location.hash = "#/";
  showSignIn("You are signed out.");
}

async function showSignIn(reason) {
  if (signedOut) return;
  signedOut = true;
  unfollow();
  page?.close?.();
  page = null;
  navigation.hidden = account.hidden = true;
  const { signInPage } = await import("./signin.js");
  main.replaceChildren(signInPage(reason, start));
  document.title = "Sign in – Workspaces";
  main.querySelector("input, a")?.focus();
  if (reason) announce(reason);
}

session.addEventListener("ended", () => showSignIn(known.loaded ? "Your session has ended. Sign in to go on where you were." : ""));
updates.addEventListener("change", ({ detail }) => page?.update?.(detail));
addEventListener("hashchange", () => !signedOut && show());
document.getElementById("skip").addEventListener("click", (event) => {
  event.preventDefault();
  main.focus();
});
addEventListener("unhandledrejection", ({ reason }) => reason?.status !== 401 && notice(reason?.message ?? String(reason), "error"));
start();
