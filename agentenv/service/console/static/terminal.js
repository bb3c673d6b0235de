// A shell in the workspace. It outlives the connection: a page that is loaded again attaches to it.

import "./xterm-styles.js";
import { FitAddon } from "./addon-fit.js";
import { Terminal } from "./xterm.js";
import { resume } from "./actions.js";
import { fromBase64, stream, toBase64, unary } from "./connect.js";
import { button, h, setText } from "./dom.js";
import { stateOf } from "./format.js";
import { known } from "./store.js";

const SHELL = { cmd: "/bin/bash", args: ["-i", "-l"], envs: { TERM: "xterm-256color", COLORTERM: "truecolor", LANG: "C.UTF-8" } };
document.head.append(h("link", { rel: "stylesheet", href: new URL("./xterm.css", import.meta.url).href }));

const PAUSES = [250, 500, 1000, 2000, 4000, 8000];
const READER = "screen-reader";
const dark = matchMedia("(prefers-color-scheme: dark)");

function theme() {
  const style = getComputedStyle(document.documentElement);
  const color = (name) => style.getPropertyValue(name).trim();
  return { background: color("--terminal"), foreground: color("--terminal-text"), cursor: color("--terminal-text"), selectionBackground: color("--selection"), ...(dark.matches ? DARK : LIGHT) };
}

const LIGHT = { black: "#24292f", red: "#b3261e", green: "#116329", yellow: "#7a4e00", blue: "#0b57d0", magenta: "#8250df", cyan: "#0b6b76", white: "#57606a", brightBlack: "#57606a", brightRed: "#b3261e", brightGreen: "#116329", brightYellow: "#7a4e00", brightBlue: "#0b57d0", brightMagenta: "#8250df", brightCyan: "#0b6b76", brightWhite: "#24292f" };
const DARK = { black: "#3b4252", red: "#ff8f87", green: "#7ee787", yellow: "#e3b341", blue: "#8ab4ff", magenta: "#d2a8ff", cyan: "#76e3ea", white: "#d0d7de", brightBlack: "#8b949e", brightRed: "#ffb1ab", brightGreen: "#a5f0ac", brightYellow: "#f2cc60", brightBlue: "#adc8ff", brightMagenta: "#e2c5ff", brightCyan: "#a5f1f5", brightWhite: "#ffffff" };

export function open(id, panel) {
  const terminal = new Terminal({ cursorBlink: true, fontSize: 14, fontFamily: "ui-monospace, SFMono-Regular, Menlo, Consolas, 'DejaVu Sans Mono', monospace", scrollback: 5000, theme: theme(), screenReaderMode: localStorage.getItem(READER) === "yes", allowProposedApi: false });
  const fit = new FitAddon();
  terminal.loadAddon(fit);
  const status = h("span", { role: "status", class: "muted small" });
  const again = button("New shell", start, { class: "secondary" });
  const reader = h("input", { type: "checkbox", id: READER, checked: localStorage.getItem(READER) === "yes" });
  const screen = h("div", { class: "screen", id: "terminal" });
  const asleep = h("div", { class: "empty", hidden: true });
  const key = `shell ${id}`;
  let pid = null;
  let live = null;
  let queue = [];
  let sending = false;
  let wasRunning = false;
  let closed = false;

  const foot = h(
    "div",
    { class: "terminal-foot" },
    status,
    again,
    h("span", { class: "check" }, reader, h("label", { for: READER }, "Screen reader")),
    h("span", { class: "muted small" }, "Ctrl+F6 leaves the terminal"),
  );
  panel.replaceChildren(asleep, screen, foot);
  terminal.open(screen);
  terminal.textarea.setAttribute("aria-label", `Terminal of ${id}`);
  terminal.attachCustomKeyEventHandler((event) => {
    if (event.key !== "F6" || !event.ctrlKey) return true;
    if (event.type === "keydown") document.querySelector('[role="tab"][aria-selected="true"]')?.focus();
    return false;
  });
  reader.addEventListener("change", () => {
    localStorage.setItem(READER, reader.checked ? "yes" : "no");
    terminal.options.screenReaderMode = reader.checked;
  });
  const recolor = () => (terminal.options.theme = theme());
  dark.addEventListener("change", recolor);
  const observer = new ResizeObserver(() => !screen.hidden && screen.clientWidth && fit.fit());
  observer.observe(screen);
  terminal.onData((text) => send(new TextEncoder().encode(text)));
  terminal.onBinary((text) => send(Uint8Array.from(text, (character) => character.charCodeAt(0))));
  terminal.onResize(({ cols, rows }) => {
    if (pid !== null) unary(id, "process.Process/Update", { process: { pid }, pty: { size: { cols, rows } } }).catch(() => undefined);
  });

  const say = (text) => setText(status, text);

  async function start() {
    live?.abort();
    sessionStorage.removeItem(key);
    pid = null;
    terminal.reset();
    await run();
  }

  // Keeps the terminal connected to its shell, over broken connections and until the shell ends.
  async function run() {
    const mine = (live = new AbortController());
    const stored = sessionStorage.getItem(key);
    pid ??= stored ? Number(stored) : null;
    for (let failures = 0; !mine.signal.aborted && !closed; failures += 1) {
      try {
        const attached = pid !== null;
        say(attached ? "connecting…" : "starting…");
        const { cols, rows } = fit.proposeDimensions() ?? { cols: 80, rows: 24 };
        const body = attached ? { process: { pid } } : { process: SHELL, pty: { size: { cols, rows } } };
        for await (const { event } of stream(id, `process.Process/${attached ? "Connect" : "Start"}`, body, mine.signal)) {
          failures = 0;
          if (event?.start) started(event.start.pid, attached);
          if (event?.data?.pty) terminal.write(fromBase64(event.data.pty));
          if (event?.end) return ended(event.end);
        }
      } catch (error) {
        if (mine.signal.aborted || closed) return undefined;
        if (error.code === "not_found" && pid !== null) {
          // The shell ended meanwhile, as with a suspension.
          pid = null;
          sessionStorage.removeItem(key);
          continue;
        }
        if (error.status === 401 || error.status === 403 || error.status === 404 || error.status === 402 || error.status === 409) return say(error.message);
        if (stateOf(known.workspaces.get(id) ?? {}) !== "running" || failures >= PAUSES.length) return say(error.message);
        say("reconnecting…");
        await new Promise((resolve) => setTimeout(resolve, PAUSES[failures]));
      }
    }
    return undefined;
  }

  function started(number, attached) {
    if (attached) terminal.reset();
    pid = Number(number);
    sessionStorage.setItem(key, String(pid));
    say("connected");
    const { cols, rows } = terminal;
    if (attached) unary(id, "process.Process/Update", { process: { pid }, pty: { size: { cols, rows } } }).catch(() => undefined);
    screen.dataset.pid = String(pid);
    terminal.focus();
  }

  function ended({ exitCode }) {
    pid = null;
    sessionStorage.removeItem(key);
    delete screen.dataset.pid;
    say(`the shell has ended${exitCode ? ` with ${exitCode}` : ""}`);
    again.focus();
  }

  // Keys are sent in their order, those of a moment together.
  async function send(bytes) {
    if (pid === null) return;
    queue.push(bytes);
    if (sending) return;
    sending = true;
    try {
      while (queue.length && pid !== null) {
        const joined = new Uint8Array(queue.reduce((sum, each) => sum + each.length, 0));
        queue.reduce((place, each) => (joined.set(each, place), place + each.length), 0);
        queue = [];
        await unary(id, "process.Process/SendInput", { process: { pid }, input: { pty: toBase64(joined) } });
      }
    } catch (error) {
      say(error.message);
    } finally {
      sending = false;
    }
  }

  function update(workspace) {
    const state = stateOf(workspace ?? {});
    const isRunning = state === "running";
    foot.hidden = !isRunning;
    if (isRunning && !wasRunning) {
      asleep.hidden = true;
      screen.hidden = false;
      requestAnimationFrame(() => {
        fit.fit();
        run();
      });
    } else if (!isRunning) {
      live?.abort();
      if (state === "suspended" || state === "failed") {
        asleep.replaceChildren(h("p", {}, state === "failed" ? "It failed. Waking it starts it again." : "It is asleep. Its files are kept, its processes have ended."), button("Wake it", () => resume(known.workspaces.get(id))));
      } else asleep.replaceChildren(h("p", {}, state === "creating" ? "It is starting…" : "It is not running."));
      asleep.hidden = false;
      screen.hidden = true;
      say("");
    }
    wasRunning = isRunning;
  }

  function close() {
    closed = true;
    live?.abort();
    observer.disconnect();
    dark.removeEventListener("change", recolor);
    terminal.dispose();
  }

  return { update, close };
}
