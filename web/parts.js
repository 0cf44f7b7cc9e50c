// What views are made of: badges, tiles, boxes, notices, questions.

import { h, put } from "./dom.js";
import { words } from "./format.js";

/** Which colour a word stands for, whatever it is the state of. */
const TONES = {
  ok: "good", healthy: "good", quiet_as_usual: "good", usual: "good", fetched: "good", new: "good", added: "good", live: "good", delivered: "good",
  late: "warn", over_quota: "warn", frozen: "warn", empty: "warn", overflowing: "warn", failed: "warn", paused: "warn", held_up: "warn", renamed: "warn",
  never_fetched: "info", pending: "info", fetching: "info", known: "info", raised: "info", waiting: "info", not_modified: "info",
  failing: "bad", blocked: "bad", dead: "bad", dead_letters: "bad", refused: "bad", gone: "bad", rejected: "bad",
};

export function tone(word) {
  return TONES[word] ?? "plain";
}

/** Where the sources of a standing are, or the channels that are the reason for it. */
export function behind(standing) {
  return { disabled: "/sources?enabled=false", late: "/sources?tab=feeds&health=late", failing: "/sources?tab=feeds&health=failing", blocked: "/sources?tab=feeds&health=blocked" }[standing];
}

/** A small word with a colour; the colour never says anything alone. */
export function badge(word, title, colour = tone(word)) {
  return h("span.badge", { class: colour, title }, words(word));
}

/** A figure with its name. */
export function tile(label, value, note, { colour, href, title } = {}) {
  const inner = [h("dt", null, label), h("dd", { class: colour }, value ?? "–"), h("dd.note", null, note ?? " ")];
  return href ? h("a.tile", { href, title }, ...inner.map(asSpan)) : h("div.tile", { title }, ...inner.map(asSpan));
}

function asSpan(node) {
  const made = h("span", { class: `${node.tagName.toLowerCase()} ${node.className}` });
  made.append(...node.childNodes);
  return made;
}

/** A part of a page with a heading, and what belongs beside it. */
export function section(title, { aside, note, id } = {}, ...children) {
  const head = h("header", null, h("h2", { id }, title), note && h("p.note", null, note), aside && h("div.aside", null, aside));
  return h("section.card", null, head, ...children);
}

/** The head of a view. */
export function heading(title, { sub, actions } = {}) {
  return h("header.head", null,
    h("div", null, h("h1", null, title), sub && h("p.sub", null, sub)),
    actions && h("div.actions", null, actions));
}

/** Names and values. Those without a value are left out. */
export function facts(pairs) {
  const rows = pairs.filter(([, value]) => value !== null && value !== undefined && value !== "" && value !== false);
  return h("dl.facts", null, rows.map(([name, value]) => h("div", null, h("dt", null, name), h("dd", null, value))));
}

/** Nothing is here, and what to do next. */
export function nothing(title, ...next) {
  return h("div.nothing", null, h("p.what", null, title), next.length ? h("p", null, ...next) : null);
}

/** What went wrong, with what to do. */
export function problem(error, again) {
  return h("div.problem", { role: "alert" },
    h("p.what", null, sentence(error.message)),
    error.fields?.length ? h("ul", null, error.fields.map((one) => h("li", null, one.field ? h("code", null, one.field) : null, " ", one.message))) : null,
    error.hint ? h("p", null, coded(error.hint)) : null,
    again && h("button", { type: "button", onclick: again }, "Try again"));
}

export function sentence(text) {
  return text.charAt(0).toUpperCase() + text.slice(1);
}

/** Text in which `this` is code. */
export function coded(text) {
  return text.split("`").map((part, at) => (at % 2 ? h("code", null, part) : part));
}

/** Places that are about to be filled, as high as what comes. */
export function skeleton(lines = 3) {
  return h("div.skeleton", { "aria-hidden": "true" }, Array.from({ length: lines }, () => h("i")));
}

/** Fills a place with what `load` gives, and says so while it waits and when it fails. */
export async function load(place, signal, work, lines) {
  if (!place.childElementCount) put(place, skeleton(lines));
  place.setAttribute("aria-busy", "true");
  try {
    const made = await work();
    if (!signal.aborted && made) put(place, made);
  } catch (error) {
    if (error.name !== "AbortError" && !signal.aborted) put(place, problem(error, () => load(place, signal, work, lines)));
  } finally {
    place.removeAttribute("aria-busy");
  }
}

/** Tells something in passing. */
export function toast(text, colour = "good") {
  const node = h("p.toast", { class: colour }, text);
  document.getElementById("toasts").append(node);
  setTimeout(() => node.remove(), colour === "bad" ? 12_000 : 5_000);
}

/** A button that is busy while its work goes on, and tells when that fails. */
export function button(label, work, { kind = "", title, done } = {}) {
  const node = h("button", { type: "button", class: kind, title }, label);
  node.addEventListener("click", async (event) => {
    event.stopPropagation();
    node.disabled = true;
    try {
      const said = await work();
      if (said !== false && done) toast(typeof done === "function" ? done(said) : done);
    } catch (error) {
      toast([error.message, error.hint].filter(Boolean).join(" "), "bad");
    } finally {
      node.disabled = false;
    }
  });
  return node;
}

/** Opens a dialog; `build(close)` gives its content. Resolves with what `close` was given. */
export function dialog(title, build, { wide } = {}) {
  return new Promise((resolve) => {
    const id = `d${Math.random().toString(36).slice(2)}`;
    let answer = null;
    const node = h("dialog", { class: wide ? "wide" : "", "aria-labelledby": id });
    const close = (value) => {
      answer = value;
      node.close();
    };
    put(node,
      h("header", null, h("h2", { id }, title), h("button.quiet", { type: "button", "aria-label": "Close", onclick: () => close(null) }, "✕")),
      build(close));
    node.addEventListener("close", () => {
      node.remove();
      resolve(answer);
    });
    document.body.append(node);
    node.showModal();
  });
}

/** Asks before something that cannot be taken back. */
export function sure(title, text, yes) {
  return dialog(title, (close) => h("div.body", null,
    h("p", null, text),
    h("footer", null,
      h("button.quiet", { type: "button", onclick: () => close(false) }, "Cancel"),
      h("button.danger", { type: "button", autofocus: true, onclick: () => close(true) }, yes))));
}

/** Parts of a view behind names, of which one is shown; made when they are first looked at. */
export function tabs(label, entries, chosen, changed) {
  const panel = h("div.panel", { role: "tabpanel", tabindex: "0" });
  const made = new Map();
  const show = (name, focus) => {
    for (const one of bar.children) {
      const on = one.dataset.name === name;
      one.setAttribute("aria-selected", String(on));
      one.tabIndex = on ? 0 : -1;
      if (on && focus) one.focus();
      if (on) requestAnimationFrame(() => (bar.scrollLeft += Math.max(0, one.getBoundingClientRect().right - bar.getBoundingClientRect().right)));
    }
    if (!made.has(name)) made.set(name, entries.find((entry) => entry.name === name).make());
    put(panel, made.get(name));
    panel.setAttribute("aria-label", name);
    changed?.(name);
  };
  const bar = h("div.tabs", { role: "tablist", "aria-label": label, onkeydown: (event) => {
    const step = { ArrowRight: 1, ArrowLeft: -1 }[event.key];
    if (!step) return;
    const all = [...bar.children];
    const at = all.indexOf(document.activeElement);
    show(all[(at + step + all.length) % all.length].dataset.name, true);
  } }, entries.map(({ name, title, note }) => h("button", { type: "button", role: "tab", dataset: { name }, onclick: () => show(name) }, title, note !== undefined && h("span.n", null, note))));
  show(entries.some((entry) => entry.name === chosen) ? chosen : entries[0].name);
  return h("div.tabbed", null, bar, panel);
}
