// The Connect protocol in JSON, as workspaced serves it: requests with one response, and streams of framed messages.

import { answer, Refusal, sandboxPath, session } from "./api.js";

const HEADER = 5;
const LAST = 0b10;
const LONGEST = 64 << 20;
const KEEPALIVE_SECONDS = "30";

export async function unary(id, method, body) {
  const response = await fetch(sandboxPath(id, `/${method}`), {
    method: "POST",
    headers: { "content-type": "application/json", "connect-protocol-version": "1" },
    credentials: "same-origin",
    body: JSON.stringify(body),
  });
  return answer(response);
}

function frame(message) {
  const content = new TextEncoder().encode(JSON.stringify(message));
  const bytes = new Uint8Array(HEADER + content.length);
  new DataView(bytes.buffer).setUint32(1, content.length);
  bytes.set(content, HEADER);
  return bytes;
}

// Yields the messages of a stream; throws where it ends with an error, or without its end.
export async function* stream(id, method, body, signal) {
  const response = await fetch(sandboxPath(id, `/${method}`), {
    method: "POST",
    headers: {
      "content-type": "application/connect+json",
      "connect-protocol-version": "1",
      "keepalive-ping-interval": KEEPALIVE_SECONDS,
    },
    credentials: "same-origin",
    body: frame(body),
    signal,
  });
  if (!response.ok || !(response.headers.get("content-type") ?? "").startsWith("application/connect+json")) {
    if (response.status === 401) session.dispatchEvent(new Event("ended"));
    await answer(response);
    throw new Refusal(response.status, { detail: "the response is not from a sandbox" });
  }
  const reader = response.body.getReader();
  let buffer = new Uint8Array(0);
  for (;;) {
    const { value, done } = await reader.read();
    if (done) throw new Refusal(0, { detail: "the connection to the workspace was lost" });
    const joined = new Uint8Array(buffer.length + value.length);
    joined.set(buffer);
    joined.set(value, buffer.length);
    buffer = joined;
    while (buffer.length >= HEADER) {
      const length = new DataView(buffer.buffer, buffer.byteOffset).getUint32(1);
      if (buffer[0] & 1 || length > LONGEST) throw new Refusal(0, { detail: "the response is not from a sandbox" });
      if (buffer.length < HEADER + length) break;
      const message = JSON.parse(new TextDecoder().decode(buffer.subarray(HEADER, HEADER + length)));
      const isLast = (buffer[0] & LAST) !== 0;
      buffer = buffer.subarray(HEADER + length);
      if (!isLast) {
        yield message;
        continue;
      }
      if (message.error) throw new Refusal(response.status, message.error);
      return;
    }
  }
}

export function toBase64(bytes) {
  let text = "";
  for (let at = 0; at < bytes.length; at += 0x8000) text += String.fromCharCode(...bytes.subarray(at, at + 0x8000));
  return btoa(text);
}

export function fromBase64(text) {
  return Uint8Array.from(atob(text), (character) => character.charCodeAt(0));
}
