// Hosts: whom we ask, how often we may, and who does not want us.

import { path } from "../api.js";
import { h, put } from "../dom.js";
import { due, exact, now, span, when } from "../format.js";
import { badge, heading, nothing, tabs } from "../parts.js";
import { filters, table } from "../table.js";

/** How a host stands: a word, and what it means. */
export function standing(host) {
  if (host.blocked_forever) return badge("opted out", "it is not asked until somebody unblocks it", "bad");
  if (host.blocked_until && Date.parse(host.blocked_until) > now()) return badge("blocked", `until ${host.blocked_until}`);
  if (host.in_flight) return badge("fetching", "a request is under way");
  if (host.slow_ms || host.learned_ms) return badge("slowed", "it complained, or an operator slowed us down", "warn");
  return badge("free", "it can be asked when its pause is over", "plain");
}

export const FROM = { default: "the house's", crawl_delay: "its robots.txt", source: "its source", operator: "an operator", learned: "its complaints" };

/** What stands in its queue, by lane. */
export function waiting({ queued }) {
  const some = [["poll", "polls"], ["page", "pages"], ["media", "media"]].filter(([lane]) => queued[lane]);
  return some.length ? some.map(([lane, name]) => `${exact(queued[lane])} ${queued[lane] === 1 ? lane : name}`).join(", ") : h("span.none", null, "nothing");
}

const COLUMNS = [
  { label: "Host", class: "long", cell: (one) => h("a.strong", { href: path`/hosts/${one.name}`, tabindex: "-1" }, one.name) },
  { label: "State", class: "fit", cell: standing },
  { label: "Pause", class: "num", cell: (one) => h("span", { title: FROM[one.pause_from] ?? one.pause_from }, span(one.pause_ms)) },
  { label: "Waiting", class: "num", cell: waiting },
  { label: "At once", class: "num", cell: (one) => String(one.concurrency) },
  { label: "Last asked", class: "num", cell: (one) => when(one.last_fetch_at, "never") },
  { label: "Can be asked", class: "num", cell: (one) => due(one.next_at) },
];

const OPTED_OUT = [
  COLUMNS[0],
  { label: "How", class: "fit", cell: (one) => one.kind === "taken_down" ? badge("taken down", "with all hosts below it, and what was read there", "bad") : badge("blocked", "it is not asked until somebody unblocks it", "bad") },
  { label: "Since", class: "num", cell: (one) => when(one.since) },
  { label: "By", cell: (one) => one.by ?? "" },
  { label: "Why", cell: (one) => one.why ?? "" },
];

export function view({ root, signal, title, query }) {
  title("Hosts");
  const href = (one) => path`/hosts/${one.name}`;
  const all = () => {
    const list = table({ label: "Hosts", where: "/hosts", query, columns: COLUMNS, signal, href, empty: nothing("No host is known.", "Hosts appear with the first addresses of sources.") });
    const bar = filters("/hosts", [
      { name: "q", label: "Search", hint: "part of a name", main: true, wide: true },
      { name: "blocked", label: "Blocked", options: [["true", "blocked now"]] },
    ], query, list.show);
    return [bar.node, list.node];
  };
  const optouts = () => table({ label: "Opt-outs", where: "/hosts/optouts", query: {}, columns: OPTED_OUT, signal, href, empty: nothing("Nobody has opted out.", "A host that is blocked without end or taken down stands here: it is never asked until somebody says otherwise.") }).node;
  put(root, heading("Hosts", { sub: "Whom we ask, and how gently" }), tabs("Lists", [{ name: "all", title: "All", make: all }, { name: "optouts", title: "Opt-outs", make: optouts }]));
}
