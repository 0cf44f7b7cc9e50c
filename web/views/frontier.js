// Frontier: every address that waits, is asked for, is done or was given up, and what to do about it.

import { api, path } from "../api.js";
import { strip } from "../chart.js";
import { every, h, put } from "../dom.js";
import { bare, count, due, exact, label, when, words } from "../format.js";
import { badge, button, dialog, heading, load, nothing, problem, sure, tile, toast } from "../parts.js";
import { can } from "../session.js";
import { filters, table } from "../table.js";

const STATUSES = [["pending", "info"], ["fetching", "good"], ["fetched", "same"], ["failed", "warn"], ["dead", "bad"], ["parked", "plain"]];
const KINDS = ["robots", "probe", "feed", "sitemap", "listing", "archive", "article", "enclosure"];
const FILTERS = ["status", "source", "host", "kind", "code", "search"];

export function view({ root, signal, title, query }) {
  title("Frontier");
  let asked = { ...query };
  const cards = h("div.tiles", null, STATUSES.map(([name]) => tile(label(name), "–")));
  const sources = h("ul.cards", { "aria-label": "Addresses by source" });
  const stats = () => load(cards, signal, async () => {
    const got = await api.get("/frontier/stats", { top: 8 }, { signal });
    put(sources, (got.by_source ?? []).map(bySource));
    return STATUSES.map(([name, colour]) => card(name, colour, got));
  }, 1);
  const card = (name, colour, got) => {
    const value = got.total[name] ?? 0;
    const on = asked.status === name;
    const note = name === "pending" ? `${exact(got.due)} due now` : name === "dead" && got.dead_by_code.length ? `most: ${words(got.dead_by_code[0].code)}` : " ";
    const node = tile(label(name), count(value), note, { colour: value && ["warn", "bad"].includes(colour) ? colour : "" });
    const press = h("button.tile", { type: "button", "aria-pressed": String(on), onclick: () => bar.set({ status: asked.status === name ? "" : name }) });
    press.append(...node.childNodes);
    return press;
  };
  const list = table({
    label: "Addresses", where: "/frontier", query: counted(asked), signal, columns: columns(() => after()),
    sorted: (sort) => bar.set({ sort }),
    empty: () => (FILTERS.some((name) => asked[name])
      ? nothing("No address fits.", "Clear the filters to see all.")
      : nothing("The frontier is empty.", "Addresses appear when a source's feeds are read, or when you submit some.")),
  });
  const after = () => {
    list.refresh();
    stats();
  };
  const bulk = h("div.actions");
  const tools = () => put(bulk, FILTERS.some((name) => asked[name]) && can("write") ? [bulkButton("retry", asked, after), bulkButton("delete", asked, after)] : null);
  const bar = filters("/frontier", [
    { name: "search", label: "Search", hint: "part of an address", main: true, wide: true },
    { name: "status", label: "Status", options: STATUSES.map(([name]) => name) },
    { name: "origin", label: "Origin", options: ["feed", "sitemap", "spider", "manual"] },
    { name: "kind", label: "Kind", options: KINDS },
    { name: "source", label: "Source", hint: "name or id" },
    { name: "host", label: "Host" },
    { name: "code", label: "Last error", hint: "such as timeout" },
  ], query, (values) => {
    asked = values;
    list.show(counted(values));
    tools();
    for (const node of cards.querySelectorAll("button.tile")) node.setAttribute("aria-pressed", String(node.firstChild.textContent.toLowerCase() === asked.status));
  });
  put(root,
    heading("Frontier", { sub: "Every address, and what becomes of it", actions: can("write") && h("button", { type: "button", onclick: () => submit(after) }, "Submit addresses") }),
    cards, sources, bar.node, bulk, list.node);
  tools();
  every(30, signal, stats);
}

/** Counting is asked for where it is cheap and says something: when something is filtered. */
function counted(asked) {
  return FILTERS.some((name) => asked[name]) ? { ...asked, count: true } : asked;
}

function columns(after) {
  return [
    { label: "Address", class: "long", cell: (one) => [
      h("a.strong", { href: `/explain?q=${encodeURIComponent(one.url)}`, title: `${one.url}\nWhy?` }, place(one.url)),
      h("span.under", { title: one.reason }, h("a", { href: path`/hosts/${one.host}` }, one.host), one.reason ? ` · ${one.reason}` : ""),
    ] },
    { label: "Status", class: "fit", cell: (one) => [badge(one.status), one.last_error ? h("span.under.bad", { title: one.reason }, words(one.last_error)) : null] },
    { label: "Kind", class: "fit", cell: (one) => [badge(one.kind, undefined, "plain"), one.origin === one.kind ? null : h("span.under", { title: "how it came" }, `by ${one.origin}`)] },
    { label: "Priority", class: "num", sort: "priority", cell: (one) => String(one.priority) },
    { label: "Tries", class: "num", cell: (one) => (one.retry_count ? h("span", { title: `${one.retry_count} in vain, one after the other` }, `${one.fetch_count} · ${one.retry_count}✗`) : String(one.fetch_count)) },
    { label: "Next", class: "num", sort: "due", cell: (one) => (["pending", "failed"].includes(one.status) ? due(one.next_fetch_at) : h("span.none", null, "–")) },
    { label: "Found", class: "num", sort: "discovered", cell: (one) => when(one.discovered_at) },
    ...(can("write") ? [{ label: "", class: "acts", cell: (one) => actions(one, after) }] : []),
  ];
}

/** What tells an address from others of its host. */
function place(url) {
  return bare(url).replace(/^[^/?#]*/, "") || bare(url);
}

function actions(task, after) {
  return [
    ["dead", "failed", "fetched"].includes(task.status) ? button("Retry", async () => {
      await api.post(path`/frontier/${task.id}/retry`);
      after();
    }, { kind: "small", done: "It is due now." }) : null,
    button("Delete", async () => {
      if (!(await sure("Delete this address?", task.url, "Delete"))) return false;
      await api.delete(path`/frontier/${task.id}`);
      after();
    }, { kind: "small quiet", done: "Deleted." }),
  ];
}

/** Retry or delete all that the filters show: first how many, then the deed. */
function bulkButton(verb, asked, after) {
  const body = { status: asked.status?.split(","), source: asked.source, host: asked.host, kind: asked.kind, code: asked.code, search: asked.search };
  const wanted = JSON.parse(JSON.stringify(body));
  const text = verb === "retry" ? "Retry all of these" : "Delete all of these";
  return button(text, async () => {
    if (asked.origin) throw new Error("Clear the filter by origin first: it cannot be used for many at once.");
    const would = await api.post(`/frontier/${verb}`, { ...wanted, dry_run: true });
    if (!would.done) {
      toast("None of these can be chosen for that.", "bad");
      return false;
    }
    const spared = would.spared ? ` ${exact(would.spared)} are spared: others rely on them.` : "";
    if (!(await sure(`${verb === "retry" ? "Retry" : "Delete"} ${exact(would.done)} addresses?`, `All that the filters show.${spared}`, verb === "retry" ? "Retry" : "Delete"))) return false;
    const done = await api.post(`/frontier/${verb}`, { ...wanted, dry_run: false });
    after();
    return done;
  }, { kind: verb === "retry" ? "small" : "small danger", done: (done) => `${exact(done.done)} addresses ${verb === "retry" ? "are due now" : "were deleted"}.` });
}

/** A source with its addresses by status; those with most come first. */
function bySource(one) {
  const parts = STATUSES.map(([name, colour]) => ({ name, colour, count: one[name] ?? 0, label: `${name}: ${exact(one[name] ?? 0)}` })).filter((part) => part.count);
  const told = parts.map((part) => `${exact(part.count)} ${part.name}`).join(", ");
  return h("li", null, h("a", { href: `/frontier?source=${encodeURIComponent(one.name)}`, title: one.name },
    h("b", null, one.name), strip(parts, told), h("span.under", null, told)));
}

function submit(after) {
  dialog("Submit addresses", (close) => {
    const urls = h("textarea", { name: "urls", rows: "7", spellcheck: "false", required: true, autofocus: true, placeholder: "https://example.com/story\none a line" });
    const source = h("input", { name: "source", placeholder: "name or id", autocomplete: "off" });
    const priority = h("input", { name: "priority", type: "number", min: "1", max: "10", placeholder: "the source's" });
    const said = h("div", { "aria-live": "polite" });
    const send = async () => {
      const body = { urls: urls.value.split(/\s+/).filter(Boolean) };
      if (source.value.trim()) body.source = source.value.trim();
      if (priority.value) body.priority = Number(priority.value);
      try {
        const got = await api.post("/frontier/submit/bulk", body);
        toast(`${got.new} new, ${got.known} known, ${got.raised} raised, ${got.rejected.length} rejected.`);
        after();
        if (!got.rejected.length) return close(true);
        put(said, h("div.remark.warn", null, h("ul", null, got.rejected.map((one) => h("li", null, `${one.url}: ${one.reason}`)))));
      } catch (error) {
        put(said, problem(error));
      }
    };
    return h("form.body", { onsubmit: (event) => event.preventDefault() },
      h("label.field", null, h("span", null, "Addresses of articles"), urls),
      h("div.compare", null, h("label.field", null, h("span", null, "Source"), source), h("label.field", null, h("span", null, "Priority, 10 first"), priority)),
      said, h("footer", null, button("Submit", send, { kind: "primary" })));
  });
}
