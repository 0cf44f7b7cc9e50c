// The form of a source: all that can be said about one. Only what was changed is sent.

import { h, put } from "./dom.js";
import { label, written } from "./format.js";
import { problem } from "./parts.js";

const LINES = { read: (value) => (value ?? []).join("\n"), write: (text) => text.split(/\s+/).filter(Boolean), kind: "lines" };
const LABELS = { read: (value) => (value ?? []).join("; "), write: (text) => text.split(";").map((tag) => tag.trim()).filter(Boolean) };
const TEXT = { read: (value) => value ?? "", write: (text) => text.trim() || null };
const NUMBER = { read: (value) => (value === null || value === undefined ? "" : String(value)), write: (text) => (text.trim() === "" ? null : Number(text)), type: "number" };
const SPAN = { read: written, write: (text) => text.trim() || null, hint: "such as 30m, 2h" };
const YES = { read: Boolean, write: Boolean, kind: "check" };

const one = (options, any = "the house's way") => ({ ...TEXT, options: [["", any], ...options] });

/** Groups of `[name, label, form, more]`; `of` reads where the field's name is not the API's. */
const GROUPS = [
  ["Who", [
    ["name", "Name", TEXT],
    ["url", "Home page", TEXT, { class: "wide" }],
    ["category", "Category", TEXT],
    ["tags", "Tags, with ; between", LABELS],
    ["priority", "Priority, 10 first", { ...NUMBER, min: 1, max: 10 }],
  ]],
  ["Channels", [
    ["feed_urls", "Feeds, one a line", LINES, { class: "half" }],
    ["sitemap_urls", "Sitemaps, one a line", LINES, { class: "half" }],
    ["ingestion_mode", "Articles are found by", { ...TEXT, options: [["feed", "feeds and sitemaps"], ["spider", "a walk over its pages"], ["both", "both"]] }],
    ["discover", "Look for feeds that are not named here", YES],
  ]],
  ["When it is polled", [
    ["poll_interval", "Fixed interval", SPAN, { of: "poll_interval_ms" }],
    ["min_interval", "At least apart", SPAN, { of: "min_interval_ms" }],
    ["max_interval", "At most apart", SPAN, { of: "max_interval_ms" }],
    ["poll_policy", "How polls are chosen", one([["value", "by what a request is worth"], ["ewma", "by the smoothed gap"], ["fixed", "at a fixed interval"]])],
    ["refetch", "Pages that were read", one([["never", "are never asked for again"], ["interval", "again after a time"], ["on_lastmod_newer", "when the feed says they changed"]])],
    ["rate_limit", "Pause between requests", { ...SPAN, hint: "such as 2s" }, { of: "rate_limit_ms" }],
  ]],
  ["Its pages", [
    ["website", "The home page", one([["direct", "is the article"], ["list", "lists articles"]], "is only where feeds are looked for"), { of: (source) => source.website?.discovery_mode }],
    ["article_selector", "Links to articles (CSS)", TEXT, { of: (source) => source.website?.article_selector }],
    ["pagination_selector", "Link to the next page (CSS)", TEXT, { of: (source) => source.website?.pagination_selector }],
    ["max_pages", "Pages of the list", { ...NUMBER, min: 1 }, { of: (source) => source.website?.max_pages }],
    ["max_depth", "Links away from home; -1 without end", NUMBER],
    ["article_url_patterns", "Addresses of articles (expressions)", LINES, { class: "half" }],
  ]],
];

const PARTS = ["container", "title", "body", "intro", "author", "published_time", "section", "keywords", "image", "exclude"];

function valueOf(source, name, of) {
  return typeof of === "function" ? of(source) : source[of ?? name];
}

function input(name, form, value, disabled) {
  const props = { name, disabled, autocomplete: "off", spellcheck: "false" };
  if (form.kind === "check") return h("input", { ...props, type: "checkbox", checked: Boolean(value) });
  if (form.options) return h("select", props, form.options.map(([key, text]) => h("option", { value: key, selected: key === (value ?? "") }, text)));
  const shown = form.read(value);
  if (form.kind === "lines") return h("textarea", { ...props, rows: Math.min(6, Math.max(2, shown.split("\n").length)), value: shown });
  return h("input", { ...props, type: form.type ?? "text", min: form.min, max: form.max, placeholder: form.hint, value: shown });
}

/** A selector for each part; of what is left out there may be several. */
export function selectorFields(selectors, disabled) {
  const inputs = new Map();
  const nodes = PARTS.map((part) => {
    const several = part === "exclude";
    const value = several ? (selectors?.exclude ?? []).join("\n") : (selectors?.[part] ?? "");
    const props = { name: `selectors.${part}`, spellcheck: "false", autocomplete: "off", disabled, value };
    const field = several ? h("textarea.mono", { ...props, rows: "2", placeholder: "one a line" }) : h("input.mono", { ...props, type: "text", placeholder: "told by the page" });
    inputs.set(part, field);
    return h("label.field", { class: several ? "full" : "" }, h("span", null, label(part)), field);
  });
  // What is empty is taken back.
  const values = () => Object.fromEntries([...inputs].map(([part, field]) => [part, part === "exclude" ? field.value.split("\n").map((line) => line.trim()).filter(Boolean) : field.value.trim() || null]));
  return { nodes, values };
}

/** The form; `save(changes)` gets what differs from `source`. */
export function sourceForm(source, save, { readonly = false } = {}) {
  const fields = [];
  const said = h("div.full", { "aria-live": "polite" });
  const node = h("form.form", { novalidate: true });
  for (const [legend, group] of GROUPS) {
    node.append(h("h3", null, legend));
    for (const [name, label, form, more = {}] of group) {
      const before = valueOf(source, name, more.of);
      const field = input(name, form, before, readonly);
      const box = form.kind === "check"
        ? h("label.check", { class: more.class }, field, label)
        : h("label.field", { class: more.class }, h("span", null, label), field);
      fields.push({ name, form, field, box, before: raw(form, field) });
      node.append(box);
    }
  }
  node.append(h("h3", null, "How it is asked"));
  const agent = h("input", { name: "user_agent", value: source.access?.user_agent ?? "", placeholder: "the house's", disabled: readonly });
  fields.push({ name: "user_agent", form: TEXT, field: agent, before: agent.value });
  const set = (value) => (value && typeof value === "object" ? Object.keys(value).length > 0 : Boolean(value));
  const others = Object.entries(source.access ?? {}).filter(([key, value]) => key !== "user_agent" && set(value)).map(([key]) => key);
  node.append(h("label.field.half", null, h("span", null, "User-Agent for its own site"), agent),
    h("p.note.half", null, others.length ? `Also set: ${others.join(", ").replaceAll("_", " ")}. ` : "", "Headers, cookies and credentials are set by ", h("code", null, "feedmill source set"), ", so that no browser holds them."));

  const save_ = h("button.primary", { type: "submit" }, "Save changes");
  if (!readonly) node.append(said, h("footer", null, h("button.quiet", { type: "reset" }, "Undo"), save_));
  node.addEventListener("submit", async (event) => {
    event.preventDefault();
    const changed = fields.filter(({ form, field, before }) => raw(form, field) !== before);
    if (!changed.length) return put(said, h("p.note", null, "Nothing was changed."));
    for (const one of fields) one.box?.classList.remove("has-wrong");
    save_.disabled = true;
    try {
      await save(Object.fromEntries(changed.map(({ name, form, field }) => [name, form.write(form.kind === "check" ? field.checked : field.value)])));
    } catch (error) {
      for (const wrong of error.fields ?? []) fields.find((one) => one.name === wrong.field)?.box?.classList.add("has-wrong");
      put(said, problem(error));
    } finally {
      save_.disabled = false;
    }
  });
  return node;
}

function raw(form, field) {
  return form.kind === "check" ? field.checked : field.value;
}
