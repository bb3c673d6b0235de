// What happens to workspaces, as it happens. Of several tabs one has the stream, and passes the messages on: a browser
// opens few connections to a host, and each tab's terminal needs one.

import { get, session } from "./api.js";

const KINDS = ["event", "workspace", "removed", "gap", "ready"];
const channel = new BroadcastChannel("agentenv-events");
export const changes = new EventTarget();
let stop = null;

function deliver(kind, data) {
  changes.dispatchEvent(new CustomEvent(kind, { detail: data }));
}

channel.onmessage = ({ data }) => {
  if (data.kind === "signed-out") session.dispatchEvent(new Event("ended"));
  else deliver(data.kind, data.data);
};

export function follow() {
  if (stop) return;
  const controller = new AbortController();
  stop = () => controller.abort();
  navigator.locks
    .request("agentenv-events", { signal: controller.signal }, () => held(controller.signal))
    .catch(() => undefined);
}

export function unfollow(tellOthers = false) {
  stop?.();
  stop = null;
  if (tellOthers) channel.postMessage({ kind: "signed-out" });
}

// Resolves when the stream is not wanted any more, which gives the lock to another tab.
function held(signal) {
  return new Promise((resolve) => {
    let source = null;
    let cursor = null;
    const open = () => {
      if (signal.aborted) return;
      source = new EventSource(cursor ? `/v1/events?after=${cursor}` : "/v1/events");
      for (const kind of KINDS) {
        source.addEventListener(kind, (message) => {
          cursor = message.lastEventId || cursor;
          const data = JSON.parse(message.data);
          deliver(kind, data);
          channel.postMessage({ kind, data });
        });
      }
      source.onerror = () => {
        // The browser connects again by itself, unless the service refused it.
        if (source.readyState !== EventSource.CLOSED) return;
        get("/v1/me").catch(() => undefined);
        setTimeout(open, 5000);
      };
    };
    signal.addEventListener("abort", () => {
      source?.close();
      resolve();
    });
    open();
  });
}
