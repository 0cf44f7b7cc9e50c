// Explain: one field, and the trail of decisions about an address, a source or a host.

import { api, path } from "../api.js";
import { h, link, put } from "../dom.js";
import { absolute, bare, due, exact, now, relative, span, times, when, words } from "../format.js";
import { badge, coded, facts, heading, load, nothing, section, sentence } from "../parts.js";
import { plain } from "../table.js";

export function view({ root, signal, go, title, query }) {
  title(query.q ? `Why ${query.q}` : "Explain");
  const field = h("input", { type: "search", name: "q", value: query.q ?? "", placeholder: "https://example.com/story, a source or a host", autocomplete: "off", spellcheck: "false", "aria-label": "An address, a source or a host", dataset: { main: "" } });
  const place = h("div.stack");
  put(root,
    heading("Explain", { sub: "Why was it fetched, why not, why then, and what comes next" }),
    h("form.ask", { role: "search", onsubmit: (event) => {
      event.preventDefault();
      if (field.value.trim()) go(`/explain?q=${encodeURIComponent(field.value.trim())}`);
    } }, field, h("button.primary", { type: "submit" }, "Explain")),
    place);
  if (!query.q) {
    put(place, h("section.card", null, nothing("Ask about anything that Feedmill knows.", "An article's address, a feed, a source by its name, or a host.")));
    return field.focus();
  }
  load(place, signal, async () => {
    const told = await api.get("/explain", { q: query.q }, { signal });
    return { address, source, host }[told.about](told);
  }, 6);
}

function waits(list) {
  return list.map((wait) => h("div.remark.warn", null, h("b", null, wait.host), " can be asked again ", when(wait.until), `: ${wait.why}`));
}

/** An address is a task in each lane at the most: mostly it is one. */
function address({ tasks, waits: waiting }) {
  return [...tasks.map(task), waits(waiting)];
}

function task({ task: one, verdict, trail, article, deliveries }) {
  return section(bare(one.url), { aside: [badge(one.kind, undefined, "plain"), badge(one.status), one.last_error && badge(one.last_error, undefined, "bad")] },
    h("div.body", null,
      h("p.remark", null, coded(sentence(verdict))),
      h("p.under", null,
        link(path`/hosts/${one.host}`, one.host), " · ",
        one.source_id ? [link(path`/sources/${one.source_id}`, "its source"), " · "] : null,
        article ? [link(path`/articles/${article.id}`, "the article"), " · "] : null,
        `priority ${one.priority}, ${one.fetch_count ? `asked for ${times(one.fetch_count)}` : "never asked for"}`)),
    trail.length ? h("ol.trail", null, trail.map(step)) : nothing("Nothing has happened to it yet."),
    deliveries.length ? plain("Where it went", [
      { label: "Event", class: "fit", cell: ({ event }) => [`#${event.seq} `, badge(event.kind, undefined, "plain")] },
      { label: "When", class: "fit", cell: ({ event }) => when(event.at) },
      { label: "Sinks", class: "title", cell: ({ sinks }) => (sinks.length ? sinks.map((one) => h("span.tag", { title: one.why }, link(path`/sinks/${one.sink}`, one.sink), " ", badge(one.state === "dead_letter" ? "dead_letters" : one.state))) : "none") },
    ], deliveries) : null);
}

const DOTS = { discovered: "good", fetched: "info", extracted: "good", delivered: "good", revised: "info", deduplicated: "warn" };

function step({ at, step: stage, told }) {
  const future = at && Date.parse(at) > now();
  return h("li", { class: future ? "future" : "" },
    h("span.at", null, at ? h("time", { datetime: at, title: absolute(at) }, relative(at)) : ""),
    h("span.dot", { class: DOTS[stage] ?? "" }),
    h("div.what", null, h("p", null, h("span.stage", null, words(stage))), h("p", null, coded(told))));
}

const CHANNEL = [
  { label: "Channel", class: "long", cell: (one) => [h("a.strong", { href: `/explain?q=${encodeURIComponent(one.url)}`, title: one.url }, bare(one.url)), h("span.under", { title: one.reason }, one.reason ?? "")] },
  { label: "Kind", class: "fit", cell: (one) => badge(one.kind, undefined, "plain") },
  { label: "State", class: "fit", cell: (one) => badge(one.health ?? one.status) },
  { label: "Last error", class: "fit", cell: (one) => (one.last_error ? h("span.bad", null, words(one.last_error)) : "–") },
  { label: "Last", class: "num", cell: (one) => when(one.last_fetched_at, "never") },
  { label: "Next", class: "num", cell: (one) => due(one.next_fetch_at) },
];

/** How many addresses are in which state. */
function standings(tasks, name) {
  const some = Object.entries(tasks).filter(([, count]) => count);
  if (!some.length) return "It has no addresses yet.";
  return some.map(([state, count], at) => [at ? " · " : "", link(`/frontier?status=${state}&source=${encodeURIComponent(name)}`, `${exact(count)} ${state}`)]);
}

function source({ source: one, channels, waits: waiting, discovery, tasks }) {
  const search = discovery && [discovery.ended ? "The search for its channels was over " : "Its channels are being looked for since ", when(discovery.ended ?? discovery.began, "now"), `: ${discovery.found.length} found, ${discovery.tried.length} looked at in vain, ${discovery.requests} requests.`];
  return [
    section(one.name, { aside: [badge("source", undefined, "plain"), link(path`/sources/${one.id ?? one.name}`, "Look at it")] },
      h("div.body", null,
        h("p", null, standings(tasks, one.name)),
        search && h("p.under", null, search)),
      channels.length ? plain("Its channels", CHANNEL, channels) : nothing("It has no channels.", "Name its feeds in its settings, or let it be walked.")),
    ...waits(waiting),
  ];
}

function host({ host: one, waits: waiting, channels }) {
  return [
    section(one.name, { aside: [badge("host", undefined, "plain"), link(path`/hosts/${one.name}`, "Look at it")] },
      h("div.body", null, facts([
        ["Pause", span(one.pause_ms)],
        ["Last asked", when(one.last_fetch_at, "never")],
        ["Can be asked", due(one.next_at)],
        ["Under way", exact(one.in_flight)],
      ])),
      channels.length ? plain("What is asked of it regularly", CHANNEL, channels) : nothing("Nothing is asked of it regularly.")),
    ...waits(waiting ? [waiting] : []),
  ];
}
