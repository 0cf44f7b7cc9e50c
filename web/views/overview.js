// Overview: is it doing its work, how well, and what came in.

import { api, readiness } from "../api.js";
import { chart, ranking, strip } from "../chart.js";
import { every, h, link, put } from "../dom.js";
import { line } from "../eventline.js";
import { bare, bytes, count, exact, percent, span, words } from "../format.js";
import { follow } from "../live.js";
import { behind, coded, heading, load, nothing, section, tile } from "../parts.js";

const EVENTS = 12;
const RANGES = [[6, "6 h"], [24, "24 h"], [168, "7 days"]];
const STANDINGS = [["healthy", "good"], ["never_fetched", "info"], ["late", "warn"], ["over_quota", "warn"], ["failing", "bad"], ["blocked", "bad"], ["disabled", "plain"]];

/** Places are as high as what comes, so that nothing moves when it does. */
const HEIGHTS = { polls: 258, rates: 0, delay: 186, bytes: 186, standings: 79, queue: 108, feeds: 254, codes: 254, hosts: 254 };
const FIGURES = ["Sources", "Entries", "Articles", "Requests", "Received", "Events"];
const PROMISES = ["p99 of a fetch", "Failed fetches", "Feeds polled in time", "From publication to us", "Budget"];

function places() {
  const made = Object.entries(HEIGHTS).map(([name, height]) => [name, h("div.place", { style: { "--height": `${height}px` } })]);
  return { ...Object.fromEntries(made), tiles: h("div.tiles", null, FIGURES.map((name) => tile(name, "–"))), slos: h("div.tiles.two", null, PROMISES.map((name) => tile(name, "–"))) };
}

export function view({ root, signal, title, query }) {
  title("Overview");
  const hours = Number(query.hours) || 24;
  const at = places();
  const ranges = RANGES.map(([value, text]) => h("a.button", { href: `/?hours=${value}`, class: value === hours ? "primary small" : "small", "aria-current": value === hours ? "true" : null }, text));
  const state = h("div", { role: "status" });
  const [events, pulse] = stream(signal);
  put(root,
    heading("Overview", { actions: ranges }),
    state,
    at.tiles,
    at.slos,
    h("div.grid", null,
      h("div.c8", null, section("Answers", { note: "what publishers said, over time", aside: at.rates }, at.polls)),
      h("div.c4.stack", null, section("Sources", { aside: link("/sources", "All") }, at.standings), section("Queue", { aside: link("/frontier", "All") }, at.queue)),
      h("div.c6", null, section("Time to answer", { note: "half and 99 of 100 requests" }, at.delay)),
      h("div.c6", null, section("Traffic", { note: "sent to us, and saved by conditional requests" }, at.bytes)),
      h("div.c4", null, section("Feeds with most news", {}, at.feeds)),
      h("div.c4", null, section("Most frequent errors", {}, at.codes)),
      h("div.c4", null, section("Hosts with most errors", {}, at.hosts)),
      h("div.c12", null, section("Live events", { aside: [pulse, link("/events", "All")] }, events))));

  every(15, signal, () => {
    readiness(signal).then(({ checks }) => {
      const wrong = checks.filter((check) => !check.ok);
      put(state, wrong.length ? h("div.remark.warn", null, wrong.map((check) => h("p", null, h("b", null, `${check.name}: `), coded(check.detail)))) : null);
    }).catch(() => {});
    load(at.tiles, signal, async () => figures(at, await api.get("/stats", null, { signal })), 1);
    load(at.polls, signal, async () => curves(at, await api.get("/stats/series", { hours }, { signal })), 6);
    load(at.queue, signal, async () => queue(await api.get("/frontier/stats", { top: 1 }, { signal })), 3);
  });
  every(60, signal, () => {
    load(at.standings, signal, async () => standings(await api.get("/sources/standings", null, { signal })), 3);
    const top = (by) => api.get("/stats/top", { by, hours, limit: 8 }, { signal });
    load(at.feeds, signal, async () => topFeeds((await top("feeds")).items), 5);
    load(at.codes, signal, async () => topCodes((await top("codes")).items), 5);
    load(at.hosts, signal, async () => topHosts((await top("hosts")).items), 5);
  });
}

function figures(at, { totals, slo, freshness, budget, saved_bytes_day: saved }) {
  const same = totals.requests ? totals.not_modified / totals.requests : 0;
  put(at.slos,
    tile("p99 of a fetch", slo.fetch_p99_ms === null ? "–" : span(slo.fetch_p99_ms), "in 24 h"),
    tile("Failed fetches", slo.fetches_day ? exact(slo.failed_day) : "–", slo.fetches_day ? `${percent(slo.failed_share)} of ${count(slo.fetches_day)} in 24 h` : "nothing was asked in 24 h", { colour: slo.failed_share > 0.05 ? "bad" : slo.failed_share > 0.01 ? "warn" : "" }),
    tile("Feeds polled in time", slo.feeds ? percent(slo.feeds_in_time_share) : "–", slo.feeds ? `${exact(slo.feeds_in_time)} of ${exact(slo.feeds)} within twice their interval` : "none is polled yet", { colour: slo.feeds && slo.feeds_in_time_share < 0.95 ? "warn" : "" }),
    tile("From publication to us", freshness?.p50_s == null ? "–" : span(freshness.p50_s * 1000), freshness?.p90_s == null ? "half of the entries" : `half; nine of ten in ${span(freshness.p90_s * 1000)}`),
    budgetTile(budget));
  return [
    tile("Sources", count(totals.sources), "followed", { href: "/sources" }),
    tile("Entries", count(totals.entries), "read in feeds"),
    tile("Articles", count(totals.articles), `${count(totals.duplicates)} duplicates`, { href: "/articles" }),
    tile("Requests", count(totals.requests), totals.requests ? `${percent(same, 0)} not modified` : "so far"),
    tile("Received", bytes(totals.bytes), `${bytes(saved)} saved in 24 h`),
    tile("Events", count(totals.events), "in the log", { href: "/events" }),
  ];
}

function budgetTile(budget) {
  const allowed = budget.limit_day;
  const used = budget.requests_day;
  if (!allowed) return tile("Budget", "no limit", `${count(used)} polls in 24 h`);
  const share = used / allowed;
  const price = budget.price ? `, a poll must be worth ${Number(budget.price).toPrecision(2)}` : "";
  return tile("Budget", percent(share, 0), `${count(used)} of ${count(allowed)} in 24 h${price}`, { colour: share > 1 ? "bad" : share > 0.9 ? "warn" : "" });
}

const total = (points, name) => points.reduce((sum, point) => sum + (point[name] ?? 0), 0);

/** What the last hour was like. */
function rates(points, bucket) {
  const last = points.slice(-Math.max(1, Math.round(3_600_000 / bucket)) - 1, -1);
  const some = last.slice(last.findIndex((point) => point.polls));
  if (!some.some((point) => point.polls)) return null;
  const hourly = (name) => Math.round((total(some, name) * 3_600_000) / (some.length * bucket));
  return h("p.note", { title: "in the last hour" }, `${count(hourly("polls"))} requests, ${count(hourly("entries"))} entries, ${count(hourly("articles"))} articles an hour`);
}

/** Without the time before anything was asked, as far as that leaves something to see. */
function begun(points) {
  const first = points.findIndex((point) => point.polls);
  return points.slice(Math.max(0, Math.min(first - 1, points.length - 24)));
}

function curves(at, { points: all, bucket_ms: bucket }) {
  const points = begun(all);
  put(at.rates, rates(all, bucket));
  if (!points.some((point) => point.ok || point.not_modified || point.errors)) {
    put(at.delay, nothing("No requests in this time."));
    put(at.bytes, nothing("No requests in this time."));
    return nothing("No requests in this time.", "Sources are fetched by ", h("code", null, "feedmill run"), ". Add one under ", link("/sources", "Sources"), ".");
  }
  const times = points.map((point) => Date.parse(point.at));
  const of = (name) => points.map((point) => point[name] ?? 0);
  put(at.delay, chart({ at: times, height: 150, times: true, show: (ms) => (ms === null ? "–" : span(ms)), said: "Time to answer over time", series: [
    { label: "99 of 100", colour: "chart-two", kind: "line", values: points.map((point) => point.p99_ms ?? null) },
    { label: "half", colour: "chart-one", kind: "area", values: points.map((point) => point.p50_ms ?? null) },
  ] }));
  put(at.bytes, chart({ at: times, height: 150, stacked: true, show: bytes, said: `Received ${bytes(total(points, "bytes"))}, saved ${bytes(total(points, "saved_bytes"))}`, series: [
    { label: "received", colour: "chart-one", kind: "bar", values: of("bytes") },
    { label: "saved", colour: "chart-same", kind: "bar", values: of("saved_bytes") },
  ] }));
  const sums = ["ok", "not_modified", "errors"].map((name) => exact(total(points, name)));
  return chart({ at: times, height: 222, stacked: true, show: count, said: `Answers over time: ${sums[0]} with content, ${sums[1]} not modified, ${sums[2]} errors`, series: [
    { label: "content", colour: "chart-ok", kind: "bar", values: of("ok") },
    { label: "not modified", colour: "chart-same", kind: "bar", values: of("not_modified") },
    { label: "errors", colour: "chart-bad", kind: "bar", values: of("errors") },
  ] });
}

function legend(parts, href) {
  return h("div.legend", null, parts.map((part) => h("a", { href: href(part.name) }, h("i", { class: part.colour }), `${words(part.name)} ${exact(part.count)}`)));
}

function standings({ sources, counts }) {
  if (!sources) return h("div.body", null, nothing("No sources yet.", link("/sources?add=1", "Add the first one"), "."));
  const parts = STANDINGS.map(([name, colour]) => ({ name, label: words(name), colour, count: counts[name] ?? 0 }));
  return h("div.body", null, strip(parts, parts.map((part) => `${part.count} ${part.label}`).join(", ")), legend(parts, (name) => behind(name) ?? "/sources"));
}

function queue(stats) {
  const kinds = [["pending", "info"], ["fetching", "good"], ["failed", "warn"], ["dead", "bad"], ["parked", "plain"]];
  const parts = kinds.map(([name, colour]) => ({ name, label: name, colour, count: stats.total[name] ?? 0 }));
  const due = stats.due ? `${exact(stats.due)} due now` : "nothing due";
  return h("div.body", null, h("p", null, h("b", null, due), ` · ${count(stats.hosts)} hosts`), strip(parts, parts.map((part) => `${part.count} ${part.label}`).join(", ")), legend(parts, (name) => `/frontier?status=${name}`));
}

function topFeeds(items) {
  if (!items.length) return nothing("No new entries in this time.");
  return ranking(items, { show: exact, href: (item) => `/sources?tab=feeds&q=${encodeURIComponent(item.name)}`, name: (item) => bare(item.name) });
}

function topCodes(items) {
  if (!items.length) return nothing("No errors in this time.");
  return ranking(items, { show: exact, colour: "bad", href: (item) => `/frontier?code=${encodeURIComponent(item.name)}`, name: (item) => words(item.name) });
}

function topHosts(items) {
  if (!items.length) return nothing("No errors in this time.");
  return ranking(items, { show: exact, colour: "bad", href: (item) => `/hosts/${encodeURIComponent(item.name)}` });
}

/** The last events, and what comes. */
function stream(signal) {
  const list = h("ol.feed.tall", { "aria-live": "off" });
  const pulse = h("span.pulse", null, "connecting");
  const add = (event) => {
    list.querySelector(".nothing")?.remove();
    list.prepend(line(event));
    while (list.childElementCount > EVENTS) list.lastElementChild.remove();
  };
  load(list, signal, async () => {
    const { items } = await api.get("/events", { latest: true, limit: EVENTS }, { signal });
    const newest = [...items].sort((one, other) => other.seq - one.seq);
    follow({ after: newest[0]?.seq }, signal, add, (state) => {
      pulse.className = `pulse ${state}`;
      pulse.textContent = state === "live" ? "live" : "waiting for the server";
    });
    return newest.length ? newest.map(line) : [nothing("Nothing has happened yet.", "What is found, changed or lost appears here.")];
  }, 6);
  return [list, pulse];
}
