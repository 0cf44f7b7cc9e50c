// Sources: whom we follow and how they do; the door to adding, importing and exporting them.

import { addSource } from "../addsource.js";
import { api, download } from "../api.js";
import { h, put } from "../dom.js";
import { bare, due, label, span, when, words } from "../format.js";
import { importSources } from "../importsources.js";
import { badge, behind, button, dialog, heading, nothing, tabs, tile } from "../parts.js";
import { can } from "../session.js";
import { filters, table } from "../table.js";

const HEALTH = ["quiet_as_usual", "late", "frozen", "empty", "overflowing", "blocked", "failing"];
const CARDS = [["healthy", "good"], ["late", "warn"], ["over_quota", "warn"], ["failing", "bad"], ["blocked", "bad"], ["never_fetched", ""], ["disabled", ""]];

export function view({ root, signal, go, title, query }) {
  title("Sources");
  const { tab, add, ...rest } = query;
  const cards = h("div.tiles");
  const counts = () => api.get("/sources/standings", null, { signal })
    .then((got) => put(cards, tile("Sources", got.sources.toLocaleString("en"), "all together"), CARDS.map(([name, colour]) => standing(name, got.counts[name] ?? 0, colour))))
    .catch(() => {});
  put(cards, ["Sources", ...CARDS.map(([name]) => label(name))].map((name) => tile(name, "–")));
  counts();
  const begin = async () => {
    const made = await addSource();
    if (made) go(`/sources/${encodeURIComponent(made.id)}`);
  };
  const entries = [
    { name: "sources", title: "Sources", make: () => sources(tab === "feeds" ? {} : rest, signal, begin) },
    { name: "feeds", title: "Feeds, sitemaps, lists", make: () => feeds(tab === "feeds" ? rest : {}, signal) },
  ];
  put(root,
    heading("Sources", { sub: "The publishers that are followed", actions: [
      h("button", { type: "button", onclick: exportSources }, "Export"),
      can("write") && h("button", { type: "button", onclick: async () => (await importSources()) && go("/sources") }, "Import"),
      can("write") && h("button.primary", { type: "button", id: "add-source", onclick: begin }, "Add source"),
    ] }),
    cards,
    tabs("Lists", entries, tab));
  if (add && can("write")) begin();
}

function standing(name, count, colour) {
  return tile(label(name), count.toLocaleString("en"), " ", { colour: count ? colour : "", href: behind(name) });
}

function sources(query, signal, begin) {
  const columns = [
    { label: "Name", class: "long", sort: "name", cell: (one) => [h("a.strong", { href: `/sources/${encodeURIComponent(one.id)}`, tabindex: "-1", title: one.name }, one.name), h("span.under", { title: one.url }, bare(one.url))] },
    { label: "Health", class: "fit", cell: (one) => badge(one.standing, one.reason) },
    { label: "Mode", class: "fit", cell: (one) => badge(one.ingestion_mode, "which producers look for its articles", "plain") },
    { label: "Category", class: "some", cell: (one) => h("span", null, [one.category, ...(one.tags ?? [])].filter(Boolean).map((tag) => h("span.tag", null, tag))) },
    { label: "Channels", class: "num", cell: (one) => (one.disabled_channels ? `${one.channels - one.disabled_channels} of ${one.channels}` : String(one.channels)) },
    { label: "Priority", class: "num", cell: (one) => String(one.priority) },
    { label: "Last success", class: "num", cell: (one) => when(one.last_success_at, "never") },
    { label: "Added", class: "num", sort: "created", cell: (one) => when(one.created_at) },
  ];
  const list = table({
    label: "Sources", where: "/sources", query, columns, signal,
    href: (one) => `/sources/${encodeURIComponent(one.id)}`,
    sorted: (sort) => bar.set({ sort }),
    empty: (asked) => (Object.keys(asked).length
      ? nothing("No source fits.", "Clear the filters to see all.")
      : nothing("No sources yet.", "Add a publisher by its address: its feeds are found. Or import an OPML or CSV file. ", can("write") && h("button.small", { type: "button", onclick: begin }, "Add source"))),
  });
  const bar = filters("/sources", [
    { name: "q", label: "Search", hint: "name or address", main: true, wide: true },
    { name: "category", label: "Category" },
    { name: "tag", label: "Tag" },
    { name: "mode", label: "Mode", options: ["feed", "spider", "both"] },
    { name: "enabled", label: "Enabled", options: [["true", "enabled"], ["false", "disabled"]] },
  ], query, list.show);
  return [bar.node, list.node];
}

function feeds(query, signal) {
  const columns = [
    { label: "Channel", class: "long", cell: (one) => [h("span.strong", { title: one.title }, one.title || bare(one.url)), h("span.under", { title: one.url }, bare(one.url))] },
    { label: "Source", class: "some", cell: (one) => h("a", { href: `/sources/${encodeURIComponent(one.source_id)}` }, one.source) },
    { label: "Kind", class: "fit", cell: (one) => badge(one.kind, undefined, "plain") },
    { label: "Health", class: "fit", cell: (one) => [one.health ? badge(one.health, one.last_error ? `${words(one.last_error)}: ${one.reason ?? ""}` : one.reason) : h("span.none", null, "not known yet"), one.failures ? h("span.under", null, `${one.failures} failures`) : null] },
    { label: "Interval", class: "num", cell: (one) => span(one.interval_ms) },
    { label: "Items", class: "num", cell: (one) => String(one.items ?? "–") },
    { label: "Last", class: "num", cell: (one) => when(one.last_fetched_at, "never") },
    { label: "Next", class: "num", cell: (one) => (["pending", "failed"].includes(one.status) ? due(one.next_fetch_at) : h("span.none", null, "–")) },
  ];
  const list = table({ label: "Channels", where: "/feeds", query, columns, signal, href: (one) => `/sources/${encodeURIComponent(one.source_id)}`, empty: nothing("No channel fits.", "A source's feeds appear once they are found.") });
  const bar = filters("/sources", [
    { name: "q", label: "Search", hint: "title or address", main: true, wide: true },
    { name: "source", label: "Source", hint: "name or id" },
    { name: "kind", label: "Kind", options: ["feed", "sitemap", "listing"] },
    { name: "health", label: "Health", options: HEALTH },
  ], { ...query, tab: "feeds" }, ({ tab: _, ...asked }) => list.show(asked));
  return [bar.node, list.node];
}

function exportSources() {
  const forms = [["opml", "OPML", "feed readers"], ["csv", "CSV", "spreadsheets"], ["json", "JSON", "everything that is set"], ["urls", "URLs", "an address a line"]];
  dialog("Export all sources", (close) => h("div.body", null,
    h("p.note", null, "Secrets are not in the file."),
    forms.map(([format, name, note]) => h("div.choice", null, h("div.grow", null, h("b", null, name), h("p.under", null, note)),
      button("Save", async () => {
        await download("/sources/export", { format }, `feedmill-sources.${format === "urls" ? "txt" : format}`);
        close(true);
      }, { kind: "small" })))));
}
