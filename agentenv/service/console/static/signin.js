// The page of those who are not signed in: by the environment's issuer, or by an API key where there is none.

import { call } from "./api.js";
import { button, field, h } from "./dom.js";

export function signInPage(reason, signedIn) {
  const box = h("section", { class: "card narrow" }, h("h1", {}, "Sign in"), reason && h("p", { role: "status" }, reason));
  const then = encodeURIComponent("/");
  const issuer = h("a", { class: "button", href: `/v1/sign-in?then=${then}` }, "Sign in");
  box.append(h("p", {}, "Computers for people and agents: each of its own, asleep when idle, and back with its files."), issuer);
  byKey(box, issuer, signedIn);
  return box;
}

// Where there is no issuer the sign-in answers 404; this is asked without following where it leads.
async function byKey(box, issuer, signedIn) {
  const response = await fetch("/v1/sign-in?then=%2F", { redirect: "manual" });
  if (response.type === "opaqueredirect" || response.status !== 404) return;
  const key = h("input", { type: "password", autocomplete: "off", spellcheck: "false", required: true, placeholder: "e2b_…" });
  const failure = h("p", { class: "error", role: "alert" });
  const enter = async () => {
    failure.textContent = "";
    try {
      await call("POST", "/v1/sign-in/key", undefined, { "x-api-key": key.value.trim() });
    } catch (error) {
      failure.textContent = error.message;
      key.focus();
      return;
    }
    await signedIn();
  };
  const send = button("Sign in", enter);
  const form = h("form", {}, field("API key", key, "On one machine, agentenv dev prints it."), failure, send);
  form.addEventListener("submit", (event) => {
    event.preventDefault();
    send.click();
  });
  issuer.replaceWith(form);
  key.focus();
}
