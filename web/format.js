// How figures and times read. Pure, but for the clock.

import { h } from "./dom.js";

const SECOND = 1000;
const MINUTE = 60 * SECOND;
const HOUR = 60 * MINUTE;
const DAY = 24 * HOUR;

// The server's clock: a demonstration's runs faster than ours.
let clock = { at: 0, since: 0, rate: 1 };

/** Sets the clock by what the server says. */
export function setClock(at, rate = 1) {
  const time = Date.parse(at);
  if (!Number.isNaN(time)) clock = { at: time, since: Date.now(), rate };
}

/** Now, by the server's clock. */
export function now() {
  return clock.at ? clock.at + (Date.now() - clock.since) * clock.rate : Date.now();
}

const whole = new Intl.NumberFormat("en", { maximumFractionDigits: 0 });
const short = new Intl.NumberFormat("en", { notation: "compact", maximumFractionDigits: 1 });

/** A count; great ones are shortened. */
export function count(value) {
  if (value === null || value === undefined) return "–";
  return Math.abs(value) >= 100_000 ? short.format(value) : whole.format(value);
}

export function exact(value) {
  return value === null || value === undefined ? "" : whole.format(value);
}

export function percent(share, digits = 1) {
  if (share === null || share === undefined || Number.isNaN(share)) return "–";
  // What is not whole must not look it.
  if (share < 1 && share > 0.9995 && digits <= 1) return ">99.9 %";
  return `${(share * 100).toFixed(share === 0 || share === 1 ? 0 : digits)} %`;
}

export function bytes(value) {
  if (value === null || value === undefined) return "–";
  const units = ["B", "kB", "MB", "GB", "TB"];
  let at = 0;
  let left = value;
  while (left >= 1000 && at < units.length - 1) {
    left /= 1000;
    at += 1;
  }
  return `${at === 0 || left >= 100 ? Math.round(left) : left.toFixed(1)} ${units[at]}`;
}

/** A length of time in its two greatest units: `1 h 30 min`. */
export function span(ms) {
  if (ms === null || ms === undefined) return "–";
  if (ms === 0) return "0";
  if (ms < SECOND) return `${Math.round(ms)} ms`;
  if (ms < 10 * SECOND) return `${Number((ms / SECOND).toFixed(1))} s`;
  const parts = [["d", DAY], ["h", HOUR], ["min", MINUTE], ["s", SECOND]];
  const first = parts.findIndex(([, size]) => ms >= size);
  const said = [];
  let left = ms;
  for (const [name, size] of parts.slice(first, first + 2)) {
    const times = Math.floor(left / size);
    left -= times * size;
    if (times) said.push(`${times} ${name}`);
  }
  return said.join(" ");
}

/** Milliseconds as they are written in a form: `90s` would be `1m30s`. */
export function written(ms) {
  if (ms === null || ms === undefined) return "";
  const parts = [["d", DAY], ["h", HOUR], ["m", MINUTE], ["s", SECOND], ["ms", 1]];
  let left = ms;
  let text = "";
  for (const [name, size] of parts) {
    const times = Math.floor(left / size);
    left -= times * size;
    if (times) text += times + name;
  }
  return text || "0s";
}

/** How long ago, or in how long. */
export function relative(at) {
  const away = Date.parse(at) - now();
  if (Number.isNaN(away)) return "–";
  const size = Math.abs(away);
  if (size < 5 * SECOND) return "now";
  const [value, unit] = size < MINUTE ? [size / SECOND, "s"]
    : size < HOUR ? [size / MINUTE, "min"]
    : size < DAY ? [size / HOUR, "h"]
    : size < 365 * DAY ? [size / DAY, "d"] : [size / (365 * DAY), "y"];
  const said = `${Math.floor(value)} ${unit}`;
  return away > 0 ? `in ${said}` : `${said} ago`;
}

/** When something is due: what was due before is due now. */
export function due(at) {
  const node = when(at);
  node.classList.add("due");
  freshenOne(node);
  return node;
}

/** How long a request took. */
export function took(ms) {
  return ms === 0 ? "< 1 ms" : span(ms);
}

const day = new Intl.DateTimeFormat(undefined, { dateStyle: "medium", timeStyle: "medium" });

export function absolute(at) {
  const time = Date.parse(at);
  return Number.isNaN(time) ? String(at ?? "") : `${day.format(time)} (${new Date(time).toISOString()})`;
}

/** A moment: relative to now, the absolute one as its title. `freshen` keeps it true. */
export function when(at, none = "–") {
  if (!at) return h("span.none", null, none);
  return h("time", { datetime: at, title: absolute(at) }, relative(at));
}

/** A moment as a date: its exact form is the title. */
export function date(at) {
  const time = Date.parse(at);
  return at && h("time.fixed", { datetime: at, title: Number.isNaN(time) ? null : new Date(time).toISOString() }, absolute(at).replace(/ \(.*/, ""));
}

/** `once`, `twice`, `3 times`. */
export function times(value) {
  return ["never", "once", "twice"][value] ?? `${exact(value)} times`;
}

/** Brings all relative times on the page up to date. */
export function freshen() {
  for (const node of document.querySelectorAll("time[datetime]:not(.fixed)")) freshenOne(node);
}

function freshenOne(node) {
  if (!node.dateTime) return;
  const over = node.classList.contains("due") && Date.parse(node.dateTime) <= now();
  const text = over ? "now" : relative(node.dateTime);
  if (node.textContent !== text) node.textContent = text;
}

/** How often relative times change: a demonstration's clock is faster than ours. */
export function pace() {
  return clock.rate > 1 ? 1000 : 5000;
}

/** `never_fetched` reads as `never fetched`. */
export function words(name) {
  return String(name ?? "").replaceAll("_", " ");
}

/** The same as the beginning of a line. */
export function label(name) {
  const text = words(name);
  return text.charAt(0).toUpperCase() + text.slice(1);
}

/** The host and the path of an address, without its scheme. */
export function bare(url) {
  return String(url ?? "").replace(/^https?:\/\//i, "").replace(/\/$/, "");
}
