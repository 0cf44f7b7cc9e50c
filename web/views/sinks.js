// Sinks: who gets the log, and how far behind they are.

import { api, path } from "../api.js";
import { every, h, put } from "../dom.js";
import { count, exact, span, when } from "../format.js";
import { badge, button, coded, heading, load, nothing } from "../parts.js";
import { can } from "../session.js";
import { plain } from "../table.js";

function lag(sink) {
  if (!sink.lag_events) return h("span", null, "none");
  return h("span", { class: sink.lag_seconds > 3600 ? "bad" : sink.lag_seconds > 300 ? "warn" : "" }, `${exact(sink.lag_events)} events, ${span((sink.lag_seconds ?? 0) * 1000)}`);
}

/** Pause or resume, whichever it is. */
export function switcher(sink, after, kind = "") {
  const verb = sink.paused_at ? "resume" : "pause";
  return button(sink.paused_at ? "Resume" : "Pause", async () => {
    await api.post(path`/sinks/${sink.name}/` + verb);
    await after();
  }, { kind, done: sink.paused_at ? "It gets events again." : "It gets nothing until it is resumed; nothing is lost." });
}

export function view({ root, signal, title }) {
  title("Sinks");
  const place = h("div.tablebox");
  const show = () => load(place, signal, async () => {
    const { items } = await api.get("/sinks", null, { signal });
    if (!items.length) return nothing("No sinks.", ...coded("Name one in the configuration, `[sinks.NAME]`: files, a webhook, Elasticsearch, NATS or Redis. It gets everything from the beginning of the log."));
    return plain("Sinks", columns(show), items, (one) => path`/sinks/${one.name}`);
  }, 4);
  put(root, heading("Sinks", { sub: "Who gets the log, each at its own pace" }), place);
  every(10, signal, show);
}

function columns(after) {
  return [
    { label: "Name", class: "title", cell: (one) => h("a.strong", { href: path`/sinks/${one.name}`, tabindex: "-1" }, one.name) },
    { label: "Kind", class: "fit", cell: (one) => badge(one.kind ?? "unknown", undefined, "plain") },
    { label: "State", class: "fit", cell: (one) => badge(one.state, one.last_error ?? undefined) },
    { label: "Lag", class: "fit", cell: lag },
    { label: "Place", class: "num", cell: (one) => h("span", { title: "its place in the log" }, `#${exact(one.seq)}`) },
    { label: "Delivered", class: "num", cell: (one) => count(one.delivered) },
    { label: "Dead letters", class: "num", cell: (one) => (one.dead_letters ? h("span.bad", null, count(one.dead_letters)) : "0") },
    { label: "Last error", class: "some", cell: (one) => h("span", { title: one.last_error }, one.last_error ?? "–") },
    { label: "Moved", class: "num", cell: (one) => when(one.updated_at) },
    ...(can("write") ? [{ label: "", class: "acts", cell: (one) => switcher(one, after, "small") }] : []),
  ];
}
