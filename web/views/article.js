// An article: to read, and to see where it came from. Its text is text: nothing of a publisher's page
// is run or loaded here.

import { api, download, path } from "../api.js";
import { h, link, out, put } from "../dom.js";
import { absolute, bare, bytes, date, exact, label, percent, took, when, words } from "../format.js";
import { badge, button, facts, heading, load, nothing, section, tabs } from "../parts.js";
import { plain, table } from "../table.js";
import { marks } from "./articles.js";

export async function view({ root, signal, title, id, query }) {
  const here = path`/articles/${id}`;
  const article = await api.get(here, null, { signal });
  title(article.title ?? "Article");
  put(root,
    heading(article.title || bare(article.url), { sub: [out(article.url, bare(article.url)), " ", ...marks(article)], actions: [
      h("a.button", { href: `/explain?q=${encodeURIComponent(article.url)}` }, "Why?"),
      button("Save Markdown", () => download(`${here}/markdown`, null, "article.md")),
    ] }),
    tabs("About this article", [
      { name: "read", title: "Read", make: () => reader(article, false) },
      { name: "facts", title: "Facts", make: () => about(article) },
      { name: "html", title: "HTML", make: () => source(here, signal) },
      { name: "raw", title: "Raw", make: () => raw(article, signal) },
      { name: "revisions", title: "Revisions ", note: article.revision, make: () => revisions(here, signal) },
      { name: "copies", title: "Copies", make: () => copies(article, here, signal) },
    ], query.tab, (name) => history.replaceState(null, "", location.pathname + (name === "read" ? "" : `?tab=${name}`))));
}

export function reader({ title, authors, site_name: site, source, published, first_seen: seen, language, word_count: length, abstract, text }, titled = true) {
  const parts = (text ?? "").split(/\n\s*\n/).map((part) => part.trim()).filter(Boolean);
  // A page often tells its headline twice.
  if (parts[0] === title) parts.shift();
  const at = published ?? seen;
  const by = [authors?.join(", "), site ?? source, at && absolute(at).replace(/ \(.*/, ""), `${exact(length)} words, ${Math.max(1, Math.round(length / 230))} min`];
  return h("article.reader", { lang: language, dir: "auto" },
    titled ? h("h2", null, title) : null,
    h("p.by", null, by.filter(Boolean).join(" · ")),
    abstract && !parts[0]?.startsWith(abstract.slice(0, 60)) ? h("p.lead", null, abstract) : null,
    parts.length ? h("div.text", null, parts.map((part) => h("p", null, part))) : nothing("No text is kept.", "It may be a duplicate whose text stands with the first, or its rights say not to keep it."));
}

function about(article) {
  return [
    section("Facts", {}, h("div.body", null, facts([
      ["Source", article.source && link(path`/sources/${article.source_id}`, article.source)],
      ["Canonical address", article.canonical_url && out(article.canonical_url, bare(article.canonical_url))],
      ["Published", date(article.published)],
      ["Updated", date(article.updated)],
      ["First seen", date(article.first_seen)],
      ["Last seen", date(article.last_seen)],
      ["Authors", article.authors?.join(", ")],
      ["Site", article.site_name],
      ["Section", article.section],
      ["Category", article.category],
      ["Tags", article.tags?.join(", ")],
      ["Language", article.language],
      ["Picture", article.lead_image && out(article.lead_image, bare(article.lead_image))],
      ["Words", exact(article.word_count)],
      ["Read by", `${words(article.method)}, confidence ${percent(article.confidence, 0)}`],
      ["Duplicate of", article.duplicate_of && link(path`/articles/${article.duplicate_of}`, article.duplicate_of.slice(0, 16))],
      ["Nearest", article.near?.nearest && link(path`/articles/${article.near.nearest}`, `${percent(article.near.share, 0)} in common`)],
      ["Id", h("span.mono", null, article.id)],
      ["Content hash", h("span.mono", null, article.content_hash)],
    ]))),
    article.references?.length ? section("Who told of it", {}, plain("Who told of it", [
      { label: "Source", class: "title", cell: (one) => one.source ?? "–" },
      { label: "Channel", class: "long", cell: (one) => h("span", null, one.channel ? bare(one.channel) : "–") },
      { label: "Origin", class: "fit", cell: (one) => badge(one.origin, undefined, "plain") },
      { label: "First", class: "num", cell: (one) => when(one.first_seen) },
    ], article.references)) : null,
    rights(article.rights),
  ];
}

function rights(said) {
  const stated = Object.entries(said ?? {}).filter(([, value]) => value !== null && (typeof value !== "object" || Object.keys(value).length));
  const text = (value) => (typeof value === "object" ? (Array.isArray(value) ? value.join(", ") : JSON.stringify(value)) : String(value));
  return stated.length ? section("Rights", { note: "as the page states them" }, h("div.body", null, facts(stated.map(([name, value]) => [label(name), text(value)])))) : null;
}

function source(here, signal) {
  const place = h("div");
  load(place, signal, async () => {
    const html = await (await api.raw(`${here}/html`, null, { signal })).text();
    return section("HTML, as it is handed on", { note: "sanitised; shown as text" }, h("div.body", null, h("pre.log", null, html)));
  }, 6);
  return place;
}

function raw(article, signal) {
  const place = h("div");
  load(place, signal, async () => {
    if (!article.fetch) return h("section.card", null, nothing("The answer is no longer kept."));
    const where = path`/fetches/${article.fetch}`;
    const got = await api.get(where, null, { signal });
    const save = () => download(`${where}/body`, null, `${got.id}.bin`);
    return section("The answer that it was read from", { aside: got.kept ? button("Save the bytes", save, { kind: "small" }) : badge("no longer kept", undefined, "warn") },
      h("div.body", null, facts([
        ["Asked", date(got.at)],
        ["Address", out(got.url, bare(got.url))],
        ["Answer", [String(got.status ?? "–"), " ", badge(got.code)]],
        ["Type", got.content_type],
        ["Bytes", bytes(got.bytes)],
        ["Took", took(got.elapsed_ms)],
        ["SHA-256", h("span.mono", null, got.body_sha256)],
      ])),
      h("div.body.compare", null, head("We asked", got.request), head("It answered", got.response)),
      got.kept ? served(where, signal) : null);
  }, 6);
  return place;
}

/** So much of a body is shown. */
const SHOWN = 200_000;

/** The body as text: what it was coded with is undone here, and nothing of it is run. */
function served(where, signal) {
  const place = h("div");
  load(place, signal, async () => {
    const reply = await api.raw(`${where}/body`, null, { signal });
    const coding = reply.headers.get("x-served-content-encoding");
    const known = { gzip: "gzip", "x-gzip": "gzip", deflate: "deflate" }[coding ?? ""];
    if (coding && coding !== "identity" && !known) return h("p.note", null, `It is coded with ${coding}: save the bytes to look at them.`);
    const whole = await new Response(known ? reply.body.pipeThrough(new DecompressionStream(known)) : reply.body).arrayBuffer();
    const text = decoded(whole, reply.headers.get("x-served-content-type") ?? "");
    return [h("h3", null, "Its body"), h("pre.log", null, text.slice(0, SHOWN)), text.length > SHOWN ? h("p.note", null, `and ${exact(text.length - SHOWN)} characters more`) : null];
  }, 4);
  return h("div.body", null, place);
}

function decoded(whole, type) {
  try {
    return new TextDecoder(/charset="?([^";]+)/i.exec(type)?.[1] ?? "utf-8").decode(whole);
  } catch {
    return new TextDecoder().decode(whole);
  }
}

function head(label, message) {
  if (!message) return h("div", null, h("h3", null, label), h("p.note", null, "not kept"));
  const lines = [message.line, ...message.headers.map(([name, value]) => `${name}: ${value}`)];
  return h("div", null, h("h3", null, label), h("pre.log", null, lines.join("\n")));
}

function revisions(here, signal) {
  const shown = h("div");
  const list = table({ label: "Revisions", where: `${here}/revisions`, query: {}, signal, fixed: true, columns: [
    { label: "Revision", class: "num", cell: (one) => String(one.revision) },
    { label: "Seen", class: "fit", cell: (one) => when(one.seen) },
    { label: "Title", class: "long", cell: (one) => h("span.strong", null, one.title ?? "") },
    { label: "Words", class: "num", cell: (one) => exact(one.word_count) },
    { label: "Change", class: "fit", cell: (one) => (one.change ? [`+${one.change.added} −${one.change.removed}`, one.change.silent && [" ", badge("silent", "it changed without saying so", "warn")]] : "first") },
    { label: "", class: "acts", cell: (one) => h("button.small", { type: "button", onclick: () => load(put(shown), signal, async () => reader(await api.get(`${here}/revisions/${one.revision}`, null, { signal })), 6) }, "Read") },
  ], empty: nothing("Only one form of it is known.") });
  return [list.node, shown];
}

function copies(article, here, signal) {
  return table({ label: "Copies", where: `${here}/duplicates`, query: {}, signal, fixed: true, href: (one) => path`/articles/${one.id}`, columns: [
    { label: "Title", class: "long", cell: (one) => [h("a.strong", { href: path`/articles/${one.id}`, tabindex: "-1" }, one.title || bare(one.url)), h("span.under", null, bare(one.url))] },
    { label: "Source", class: "some", cell: (one) => h("span", null, one.source ?? "–") },
    { label: "", class: "fit", cell: (one) => (one.id === article.id ? badge("this one", undefined, "plain") : marks(one)) },
    { label: "First seen", class: "num", cell: (one) => when(one.first_seen) },
  ], empty: nothing("Nobody else is known to have it.") }).node;
}
