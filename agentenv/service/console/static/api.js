// Requests to the service, on this host and with the cookie of this host. No script ever sees a token.

export class Refusal extends Error {
  constructor(status, problem) {
    super([problem.detail ?? problem.message ?? problem.title, problem.way_out].filter(Boolean).join("; ") || `status ${status}`);
    this.status = status;
    this.code = problem.code;
    this.kind = String(problem.type ?? "").split(":").pop();
  }
}

export const session = new EventTarget();

export async function call(method, path, body, headers = {}) {
  const options = { method, headers: { accept: "application/json", ...headers }, credentials: "same-origin" };
  if (body !== undefined) {
    options.body = JSON.stringify(body);
    options.headers["content-type"] = "application/json";
  }
  let response;
  try {
    response = await fetch(path, options);
  } catch {
    throw new Refusal(0, { detail: "the service cannot be reached" });
  }
  return answer(response);
}

export async function answer(response) {
  if (response.status === 204) return null;
  const text = await response.text();
  let document = null;
  try {
    document = JSON.parse(text);
  } catch {
    document = null;
  }
  if (response.ok && document !== null) return document;
  if (response.ok && text === "") return null;
  if (response.status === 401) session.dispatchEvent(new Event("ended"));
  throw new Refusal(response.status, document ?? {});
}

export const get = (path) => call("GET", path);
export const post = (path, body) => call("POST", path, body ?? undefined);
export const put = (path, body) => call("PUT", path, body);
export const patch = (path, body) => call("PATCH", path, body);
export const remove = (path) => call("DELETE", path);

export const workspacePath = (id, rest = "") => `/v1/workspaces/${encodeURIComponent(id)}${rest}`;
export const sandboxPath = (id, rest) => `/sandbox/${encodeURIComponent(id)}${rest}`;

export async function everything(path) {
  const items = [];
  let after = null;
  do {
    const joined = path.includes("?") ? "&" : "?";
    const page = await get(after ? `${path}${joined}after=${encodeURIComponent(after)}` : path);
    items.push(...page.items);
    after = page.after ?? null;
  } while (after);
  return items;
}
