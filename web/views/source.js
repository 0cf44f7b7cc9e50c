// A source: how its channels do and why they come back when they do, what it publishes, what is set.

import { api, path } from "../api.js";
import { chart } from "../chart.js";
import { every, h, link, out, put, settle } from "../dom.js";
import { bare, bytes, count, due, exact, now, span, when, words } from "../format.js";
import { follow } from "../live.js";
import { badge, button, facts, heading, load, nothing, problem, section, sentence, skeleton, sure, tabs, toast } from "../parts.js";
import { can } from "../session.js";
import { sourceForm } from "../sourceform.js";
import { selectorsTest } from "../selectors.js";
import { table } from "../table.js";

export async function view({ root, signal, go, title, id, query }) {
  const place = h("div.stack", null, skeleton(6));
  put(root, place);
  const here = () => path`/sources/${id}`;
  let tab = query.tab;
  let shown = "";
  const show = async () => {
    const source = await api.get(here(), null, { signal });
    // What is there already is left alone: somebody may be reading it.
    const told = JSON.stringify(source);
    if (told === shown) return;
    shown = told;
    title(source.name);
    put(place, page(source));
  };
  const again = () => show().catch((error) => {
    if (error.name === "AbortError") return;
    shown = "";
    put(place, problem(error, again));
  });
  const act = (name, body, said) => async () => {
    await api.post(`${here()}/${name}`, body);
    toast(said);
    await again();
  };

  const page = (source) => [
    heading(source.name, { sub: [out(source.url, bare(source.url)), " ", badge(source.standing), " ", badge(source.ingestion_mode, "mode", "plain"), source.category && [" ", h("span.tag", null, source.category)], (source.tags ?? []).map((tag) => h("span.tag", null, tag))], actions: can("write") && [
      h("a.button", { href: `/explain?q=${encodeURIComponent(source.name)}` }, "Why?"),
      button("Fetch now", act("refetch", undefined, "Its channels are due now.")),
      source.enabled ? button("Disable", act("disable", {}, "It is no longer followed.")) : button("Enable", act("enable", undefined, "It is followed again."), { kind: "primary" }),
      button("Delete", async () => {
        const yes = await sure(`Delete ${source.name}?`, "Its channels are no longer fetched. Its articles stay.", "Delete");
        if (!yes) return false;
        await api.delete(here());
        toast(`${source.name} was deleted.`);
        go("/sources");
      }, { kind: "danger" }),
    ] }),
    source.enabled ? null : h("div.remark.warn", null, h("b", null, "Disabled "), when(source.disabled_at), source.disable_reason ? `: ${source.disable_reason}` : "."),
    source.enabled && source.reason && source.standing !== "healthy" ? h("div.remark", { class: ["failing", "blocked"].includes(source.standing) ? "bad" : ["late", "over_quota"].includes(source.standing) ? "warn" : "" }, h("b", null, words(source.standing), " "), when(source.since, ""), " ", source.reason) : null,
    source.managed ? h("div.remark", null, "Kept in step with the list at ", bare(source.managed.by), ": change it there.") : null,
    tabs("About this source", [
      { name: "channels", title: "Channels ", note: source.channels_detail.length, make: () => channels(source, signal, again) },
      { name: "entries", title: "Entries", make: () => entries(source, signal) },
      { name: "articles", title: "Articles", make: () => articles(source, signal) },
      { name: "settings", title: "Settings", make: () => settings(source, here, again) },
      { name: "selectors", title: "Selectors", make: () => selectorsTest(source, here, again) },
    ], tab, (name) => {
      tab = name;
      history.replaceState(null, "", location.pathname + (name === "channels" ? "" : `?tab=${name}`));
    }),
  ];
  await show();
  // What changes about it is shown as it happens, unless somebody is in the middle of a form. Not every
  // change is an event.
  const look = settle(() => tab === "channels" && !signal.aborted && again(), 300);
  follow({ source: id, kinds: "source.*,feed.*,entry.new" }, signal, look);
  every(10, signal, look);
}

function channels(source, signal, again) {
  const list = source.channels_detail;
  const searched = source.discovery ? discovery(source.discovery, !list.length) : null;
  if (!list.length) {
    return [searched ?? section("Channels", {}, nothing("No channels yet.", source.enabled ? "Its home page is looked at for feeds and sitemaps; they appear here by themselves." : "Enable it, or name its feeds under Settings."))];
  }
  return [paceNotice(source, signal, again), ...list.map((feed) => channel(feed, signal, again, now() - Date.parse(source.created_at) < 3 * 86_400_000 ? 1 : 7)), searched];
}

/** Hosts that are paused, and what 429 responses taught about its pace, with a button that clears both. */
function paceNotice(source, signal, again) {
  const place = h("div");
  const show = async () => {
    const { channels: all, paused_hosts: paused } = await api.get(path`/sources/${source.id}/pace`, null, { signal });
    const learned = all.filter((one) => one.learned_interval_ms || one.host_learned_pause_ms);
    if (!learned.length && !paused.length) return put(place);
    const pauses = paused.map((one) => h("li", { "data-pace": "paused" }, `Host ${one.host} is paused (ends `, when(one.until), `): ${one.reason}`));
    const lines = learned.map((one) => h("li", null, bare(one.url), ": ", [
      one.learned_interval_ms && `at least ${span(one.learned_interval_ms)} between polls`,
      one.host_learned_pause_ms && `${span(one.host_learned_pause_ms)} between requests to ${one.host}`,
    ].filter(Boolean).join(", ")));
    put(place, h("div.remark.warn", { "data-pace": "learned" }, h("b", null, paused.length ? "Hosts are paused" : "Slowed down by 429 responses"), h("ul", null, pauses, lines), learned.length ? "What was learned fades with good answers. " : "", can("write") && button(paused.length ? "End pauses and forget learned pace" : "Forget learned pace", async () => {
      await api.delete(path`/sources/${source.id}/pace`);
      toast("Learned pace cleared.");
      await again();
      await show();
    }, { kind: "small" })));
  };
  show().catch(() => {});
  return place;
}

/** How many days of a channel somebody chose to see. */
const chosenDays = new Map();

function channel(feed, signal, again, usual) {
  const shown = chosenDays.get(feed.id) ?? usual;
  const place = h("div", { style: { "min-height": "228px" } });
  const refetch = button("Fetch now", async () => {
    await api.post(path`/feeds/${feed.id}/refetch`);
    await again();
  }, { kind: "small", done: "It is due now." });
  const days = h("select", { "aria-label": "Days shown", onchange: () => {
    chosenDays.set(feed.id, Number(days.value));
    draw();
  } }, [[1, "1 day"], [7, "7 days"], [30, "30 days"]].map(([value, text]) => h("option", { value, selected: value === shown }, text)));
  const draw = () => load(place, signal, async () => rhythm(await api.get(path`/feeds/${feed.id}/series`, { days: days.value }, { signal })), 4);
  const node = section(feed.title || bare(feed.url), { aside: [badge(feed.kind, undefined, "plain"), badge(feed.health, feed.health_since && `since ${feed.health_since}`), feed.status === "pending" ? null : badge(feed.status), days, can("write") && refetch] },
    h("div.body", null,
      h("p.under", null, out(feed.url, bare(feed.url)), feed.moved_from ? ` (moved from ${bare(feed.moved_from)})` : ""),
      feed.reason ? h("p.remark", null, sentence(feed.reason)) : null,
      feed.last_error ? h("p.remark.bad", null, h("b", null, words(feed.last_error)), ` ${feed.failures} failures in a row`) : null),
    h("div.body", null, facts([
      ["Interval chosen", span(feed.interval_ms)],
      ["Last fetched", when(feed.last_fetched_at, "never")],
      ["Last success", when(feed.last_success_at, "never")],
      ["Next", ["pending", "failed"].includes(feed.status) ? due(feed.next_fetch_at) : null],
      ["Items", feed.items === null ? "–" : `${exact(feed.items)}, ${exact(feed.new_items ?? 0)} new at the last look`],
      ["Disabled", feed.disabled_since && when(feed.disabled_since)],
    ])),
    place,
    feed.warnings?.length ? h("div.body", null, h("details", null, h("summary", null, feed.warnings.length === 1 ? "A remark on its form" : `${feed.warnings.length} remarks on its form`), h("ul", null, feed.warnings.map((one) => h("li.under", null, `${words(one.code)}: ${one.detail} (${one.count})`))))) : null);
  draw();
  return node;
}

/** The interval that was chosen against what came, over time. */
function rhythm({ points: all, bucket_ms: bucket, interval_ms: chosen }) {
  const points = all.slice(Math.max(0, Math.min(all.findIndex((point) => point.polls) - 1, all.length - 24)));
  const polls = points.reduce((sum, point) => sum + point.polls, 0);
  if (!polls) return nothing("No polls in this time.");
  const total = (name) => points.reduce((sum, point) => sum + (point[name] ?? 0), 0);
  const interval = intervals(points, bucket, chosen);
  return [
    chart({ at: points.map((point) => Date.parse(point.at)), height: 150, show: count, right: span, said: `${polls} polls, ${total("entries")} new entries`, series: [
      { label: "new entries", colour: "chart-ok", kind: "bar", values: points.map((point) => point.entries) },
      { label: "time between polls", colour: "chart-two", kind: "line", step: true, scale: "r", values: interval, show: (ms) => (ms === null ? "–" : span(ms)) },
    ] }),
    h("p.under.body", null, `${exact(polls)} polls, ${exact(total("not_modified"))} not modified, ${exact(total("errors"))} errors, ${exact(total("entries"))} entries, ${bytes(total("bytes"))}`),
  ];
}

/** Polls that an interval is told from: one alone says where it fell rather than how far apart they are. */
const WINDOW = 6;

/** The time between polls at each point, by those before it. */
function intervals(points, bucket, chosen) {
  const wide = Math.max(WINDOW, Math.round((WINDOW * (chosen ?? bucket)) / bucket));
  return points.map((_, at) => {
    const some = points.slice(Math.max(0, at - wide + 1), at + 1);
    const [first, last] = [some.findIndex((point) => point.polls), some.findLastIndex((point) => point.polls)];
    if (first < 0) return null;
    if (first === last) return some[first].polls > 1 ? bucket / some[first].polls : null;
    const polls = some.slice(first + 1).reduce((sum, point) => sum + point.polls, 0);
    return ((last - first) * bucket) / polls;
  });
}

function discovery(search, open) {
  const state = search.ended ? ["over ", when(search.ended)] : ["going on since ", when(search.began, "now")];
  return h("section.card", null, h("div.body", null, h("details", { open }, h("summary", null, h("b", null, "The search for its channels"), " ", h("span.under", null, ...state, `, ${search.requests} requests`)),
    search.found.length ? h("ul", null, search.found.map((one) => h("li", null, badge("found", undefined, "good"), " ", bare(one.url)))) : h("p", null, search.ended ? "Nothing was found: name its feeds under Settings, or let it be walked (mode spider)." : "Nothing yet."),
    h("ul", null, search.tried.map((one) => h("li.under", null, `${bare(one.url)}: ${one.why}`))))));
}

function entries(source, signal) {
  return table({ label: "Entries", where: path`/sources/${source.id}/entries`, query: {}, signal, columns: [
    { label: "Title", class: "long", cell: (one) => [h("span.strong", null, one.title || one.uid), h("span.under", null, one.canonical_link ? out(one.canonical_link, bare(one.canonical_link)) : one.given_link ?? one.uid)] },
    { label: "Authors", class: "some", cell: (one) => h("span", null, (one.authors ?? []).map((author) => author.name).filter(Boolean).join(", ")) },
    { label: "Published", class: "num", cell: (one) => when(one.published) },
    { label: "First seen", class: "num", cell: (one) => when(one.first_seen) },
    { label: "Seen", class: "num", cell: (one) => exact(one.seen_count) },
    { label: "", class: "acts", cell: (one) => (one.canonical_link ? link(`/explain?q=${encodeURIComponent(one.canonical_link)}`, "Why?") : null) },
  ], empty: nothing("No entries yet.", "They appear once a feed of it was read.") }).node;
}

function articles(source, signal) {
  return table({ label: "Articles", where: path`/sources/${source.id}/articles`, query: {}, signal, href: (one) => path`/articles/${one.id}`, columns: [
    { label: "Title", class: "long", cell: (one) => [h("a.strong", { href: path`/articles/${one.id}`, tabindex: "-1" }, one.title || bare(one.url)), h("span.under", null, bare(one.url))] },
    { label: "Words", class: "num", cell: (one) => exact(one.word_count) },
    { label: "Method", class: "fit", cell: (one) => words(one.method) },
    { label: "Published", class: "num", cell: (one) => when(one.published) },
    { label: "First seen", class: "num", cell: (one) => when(one.first_seen) },
  ], empty: nothing("No articles yet.", "They appear once pages were fetched and read.") }).node;
}

function settings(source, here, again) {
  const readonly = !can("write");
  return section("Settings", { note: readonly ? "the token may only read" : "only what you change is sent" },
    sourceForm(source, async (changes) => {
      await api.patch(here(), changes);
      toast("Saved.");
      await again();
    }, { readonly }));
}
