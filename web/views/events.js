// Events: the log that sinks are fed from, newest first, and what comes.

import { api } from "../api.js";
import { h, put } from "../dom.js";
import { hrefOf, kindBadge, said } from "../eventline.js";
import { absolute, relative } from "../format.js";
import { follow } from "../live.js";
import { heading, load, nothing } from "../parts.js";
import { filters } from "../table.js";

const KINDS = ["article.*", "article.new", "article.updated", "article.duplicate", "article.failed", "article.withdrawn", "article.thin", "entry.*", "entry.new", "entry.updated", "entry.deleted", "source.*", "source.disabled", "source.enabled", "source.health", "source.discovered", "source.quota", "feed.*", "feed.moved", "feed.gone"];
const SHOWN = 100;
const KEPT = 500;

export function view({ root, signal, title, query }) {
  title("Events");
  const list = h("ol.feed");
  const pulse = h("span.pulse", null, "connecting");
  const box = h("section.card", null, list);
  let leaving = new AbortController();
  signal.addEventListener("abort", () => leaving.abort());

  const read = (asked) => {
    leaving.abort();
    leaving = new AbortController();
    const mine = leaving.signal;
    const wanted = { kinds: asked.kinds, source: asked.source };
    list.replaceChildren();
    load(list, mine, async () => {
      const { items } = await api.get("/events", { ...wanted, latest: true, limit: SHOWN }, { signal: mine });
      const newest = [...items].sort((one, other) => other.seq - one.seq);
      follow({ ...wanted, after: newest[0]?.seq }, mine, (event) => {
        list.querySelector(".nothing")?.remove();
        list.prepend(row(event));
        while (list.childElementCount > KEPT) list.lastElementChild.remove();
      }, (state) => {
        pulse.className = `pulse ${state}`;
        pulse.textContent = state === "live" ? "live" : "waiting for the server";
      });
      return newest.length ? newest.map(row) : [nothing("No such events yet.", "The log fills as sources are fetched; nothing in it is ever changed.")];
    }, 10);
  };
  const bar = filters("/events", [
    { name: "kinds", label: "What happened", options: KINDS, any: "everything" },
    { name: "source", label: "Source", hint: "name or id", main: true, wide: true },
  ], query, read);
  put(root, heading("Events", { sub: "The log that every sink reads from", actions: [pulse] }), bar.node, box);
  read(query);
}

function row(event) {
  const href = hrefOf(event);
  const text = said(event);
  const facts = h("details", null, h("summary", null, href ? h("a", { href }, text) : text, " ", h("span.under", null, `#${event.seq}`)), h("pre.log", null, JSON.stringify(event.payload, null, 2)));
  return h("li", null, h("time", { datetime: event.at, title: absolute(event.at) }, relative(event.at)), kindBadge(event.kind), facts);
}
