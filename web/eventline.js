// An event as one line: what happened, to what, and where that can be looked at.

import { badge } from "./parts.js";
import { h } from "./dom.js";
import { bare, when } from "./format.js";

const TONES = { new: "good", enabled: "good", discovered: "good", updated: "info", duplicate: "plain", moved: "warn", thin: "warn", health: "warn", disabled: "bad", failed: "bad", gone: "bad", deleted: "plain", withdrawn: "warn" };

/** Where an event's subject is shown. */
export function hrefOf({ kind, subject, source_id: source, payload }) {
  const [family, what] = kind.split(".");
  if (family === "article" && what === "failed") return `/explain?q=${encodeURIComponent(payload?.url ?? subject)}`;
  if (family === "article") return `/articles/${encodeURIComponent(payload?.article_id ?? subject)}`;
  if (source) return `/sources/${encodeURIComponent(source)}`;
  return null;
}

export function kindBadge(kind) {
  return badge(kind, undefined, TONES[kind.split(".")[1]] ?? "plain");
}

/** What an event says, in a line. */
export function said({ subject, payload = {} }) {
  const { title, url, canonical_link: entry, from, to, name, reason } = payload;
  if (from && to) return `${bare(from)} → ${bare(to)}`;
  const head = title ?? name ?? (url ? bare(url) : entry ? bare(entry) : subject);
  return reason ? `${head}: ${reason}` : head;
}

export function line(event) {
  const href = hrefOf(event);
  const text = said(event);
  return h("li", null, when(event.at), kindBadge(event.kind), href ? h("a.text", { href, title: text }, text) : h("span.text", { title: text }, text));
}
