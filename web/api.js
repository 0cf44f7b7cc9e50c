// The only way to the server: its public API, with the token, problems as errors, pages by cursor.
//
// A stored token lives in sessionStorage, whether it was typed in or came in the address: never in a cookie
// or a log. That of a login link ends with the run of the server that printed it, and is kept for this
// browser until then.

const BASE = "/api/v1";
const KEY = "feedmill.token";
const LINK = "feedmill.login";
/** What the token of a login link begins with. */
const LINK_PREFIX = "fml_";

/** A refusal or failure, as `application/problem+json` tells it, with what to do about it. */
export class Problem extends Error {
  constructor(status, body, retryAfter) {
    super(body.detail || body.title || `the server answered ${status}`);
    this.status = status;
    this.code = body.code ?? "";
    this.fields = body.errors ?? [];
    this.hint = hint(status, this.code, retryAfter);
  }
}

function hint(status, code, retryAfter) {
  if (status === 0) return "Is feedmill running? It is started by `feedmill run`; the page tries again by itself.";
  if (code === "file_only") return "";
  if (status === 401) return "Log in with a token: `feedmill token create NAME --scope read` makes one.";
  if (code === "cross_origin") return "Open the dashboard under the address that the server listens on.";
  if (status === 403) return "The token's scope is too small: `feedmill token create NAME --scope write` makes one that may change things.";
  if (status === 404) return "It may have been removed in the meantime.";
  if (status === 412) return "Somebody else changed it: load it again and repeat the change.";
  if (status === 429) return `Too many requests: try again in ${retryAfter || "a few"} seconds.`;
  if (status >= 500) return "The log of feedmill says more.";
  return "";
}

let unauthorized = () => {};
/** Who is told when a token is missing or no longer taken. */
export function whenUnauthorized(act) {
  unauthorized = act;
}

let expired = () => {};
/** Called when the server no longer knows the token of a login link. */
export function whenExpired(act) {
  expired = act;
}

export const token = {
  get: () => sessionStorage.getItem(KEY) ?? localStorage.getItem(LINK),
  set: (value) => {
    localStorage.removeItem(LINK);
    if (value) sessionStorage.setItem(KEY, value);
    else sessionStorage.removeItem(KEY);
  },
  /** Keeps a token that came in the address: that of a login link for this browser, another for this tab. */
  link: (value) => {
    if (!value.startsWith(LINK_PREFIX)) return token.set(value);
    sessionStorage.removeItem(KEY);
    localStorage.setItem(LINK, value);
  },
  /** Forgets a token if it is that of a login link: the server was started again since. */
  expire: (value) => {
    if (!value || value !== localStorage.getItem(LINK)) return false;
    localStorage.removeItem(LINK);
    expired();
    return true;
  },
};

/** `/sources/${id}` with every part written so that it stays one part. */
export function path(parts, ...values) {
  return String.raw({ raw: parts }, ...values.map((value) => encodeURIComponent(value)));
}

/** Parameters without those that say nothing. */
export function params(values) {
  const kept = Object.entries(values ?? {}).filter(([, value]) => value !== null && value !== undefined && value !== "");
  return kept.length ? `?${new URLSearchParams(kept)}` : "";
}

async function ask(method, where, { query, body, headers, signal, quiet } = {}) {
  const all = new Headers(headers);
  const used = token.get();
  if (used) all.set("authorization", `Bearer ${used}`);
  const sent = { method, headers: all, signal, credentials: "omit", cache: "no-cache", redirect: "error" };
  if (body !== undefined) {
    if (typeof body !== "string") all.set("content-type", "application/json");
    sent.body = typeof body === "string" ? body : JSON.stringify(body);
  }
  let reply;
  try {
    reply = await fetch((where.startsWith("/api") ? "" : BASE) + where + params(query), sent);
  } catch (error) {
    if (error.name === "AbortError") throw error;
    throw new Problem(0, { detail: "Feedmill does not answer." });
  }
  if (reply.ok) return reply;
  if (reply.status === 401 && token.expire(used)) return ask(method, where, { query, body, headers, signal, quiet });
  const told = await reply.json().catch(() => ({}));
  if (reply.status === 401 && !quiet) unauthorized();
  throw new Problem(reply.status, told, reply.headers.get("retry-after"));
}

async function read(reply) {
  if (reply.status === 204) return null;
  const type = reply.headers.get("content-type") ?? "";
  return type.includes("json") ? reply.json() : reply.text();
}

export const api = {
  get: async (where, query, more) => read(await ask("GET", where, { query, ...more })),
  post: async (where, body, more) => read(await ask("POST", where, { body, ...more })),
  patch: async (where, body, more) => read(await ask("PATCH", where, { body, ...more })),
  put: async (where, body, more) => read(await ask("PUT", where, { body, ...more })),
  delete: async (where, query, more) => read(await ask("DELETE", where, { query, ...more })),
  /** The answer itself: for bodies, ETags and streams. */
  raw: (where, query, more) => ask("GET", where, { query, ...more }),
};

/** Whether the server can work: its checks, whatever they say. */
export async function readiness(signal) {
  const reply = await fetch("/readyz", { signal, credentials: "omit", cache: "no-cache" });
  return reply.json();
}

/** How many pages without a hit are read before somebody is asked whether to go on. */
const PATIENCE = 8;

/** The page of a list at a cursor. A search may find nothing on a page and still go on: so do we. */
export async function page(where, query, signal) {
  let next = query.cursor;
  for (let turn = 0; ; turn += 1) {
    const got = await api.get(where, { ...query, cursor: next }, { signal });
    next = got.next ?? null;
    if (got.items.length || !next || turn === PATIENCE) return { ...got, next };
  }
}

/** Saves what a route answers as a file: a link could not send the token. */
export async function download(where, query, name) {
  const blob = await (await ask("GET", where, { query })).blob();
  const url = URL.createObjectURL(blob);
  const anchor = document.createElement("a");
  anchor.href = url;
  anchor.download = name;
  anchor.click();
  setTimeout(() => URL.revokeObjectURL(url), 10_000);
}
