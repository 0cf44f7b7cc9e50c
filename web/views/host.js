// A host: what we asked of it, how gently, and the levers to be gentler.

import { api, path } from "../api.js";
import { chart } from "../chart.js";
import { h, put } from "../dom.js";
import { bare, bytes, count, due, exact, now, span, took, when, words, written } from "../format.js";
import { badge, button, dialog, facts, heading, load, nothing, problem, section, skeleton, toast } from "../parts.js";
import { can } from "../session.js";
import { plain } from "../table.js";
import { FROM, standing, waiting } from "./hosts.js";

export async function view({ root, signal, title, id }) {
  title(id);
  const here = path`/hosts/${id}`;
  const place = h("div.stack", { style: { "min-height": "330px" } }, skeleton(6));
  const requests = h("div");
  put(root, place, section("What we asked of it", { note: "the last 30 days" }, requests));
  const show = async () => put(place, page(await api.get(here, null, { signal }), here, show));
  load(requests, signal, async () => asked(await api.get(`${here}/requests`, { days: 30 }, { signal })), 5);
  await show();
}

function page(host, here, show) {
  const blocked = host.blocked_forever || (host.blocked_until && Date.parse(host.blocked_until) > now());
  const act = (work) => async () => {
    await work();
    await show();
  };
  return [
    heading(host.name, { sub: standing(host), actions: [
      h("a.button", { href: `/frontier?host=${encodeURIComponent(host.name)}` }, "Its addresses"),
      h("a.button", { href: `/explain?q=${encodeURIComponent(host.name)}` }, "Why?"),
      can("write") && h("button", { type: "button", onclick: () => slow(host, here, show) }, "Slow down"),
      can("write") && (blocked ? button("Unblock", act(() => api.post(`${here}/unblock`)), { kind: "primary", done: "It can be asked again." }) : h("button.danger", { type: "button", onclick: () => block(host, here, show) }, "Block")),
    ] }),
    blocked ? h("div.remark.bad", null, h("b", null, host.blocked_forever ? "Blocked without end." : "Blocked until "), host.blocked_forever ? " It is not asked for anything, robots.txt included." : when(host.blocked_until)) : null,
    section("State", {}, h("div.body", null, facts([
      ["Pause between requests", `${span(host.pause_ms)}, ${FROM[host.pause_from] ?? words(host.pause_from)}`],
      ["Its robots.txt asks for", host.crawl_delay_ms === null ? "no pause" : span(host.crawl_delay_ms)],
      ["Its source asks for", host.rate_ms === null ? null : span(host.rate_ms)],
      ["Learned from complaints", host.learned_ms ? span(host.learned_ms) : null],
      ["Slowed by an operator", host.slow_ms ? span(host.slow_ms) : null],
      ["Requests at once", String(host.concurrency)],
      ["Under way", exact(host.in_flight)],
      ["Waiting", waiting(host)],
      ["Last asked", when(host.last_fetch_at, "never")],
      ["Can be asked", due(host.next_at)],
      ["Known since", when(host.created_at)],
    ]))),
    host.robots?.length ? section("robots.txt", {}, plain("robots.txt of its origins", [
      { label: "Origin", class: "title", cell: (one) => one.origin },
      { label: "Crawl delay", class: "num", cell: (one) => (one.crawl_delay_ms === null ? "–" : span(one.crawl_delay_ms)) },
      { label: "Read", class: "num", cell: (one) => when(one.fetched_at, "never") },
      { label: "Holds until", class: "num", cell: (one) => when(one.expires_at) },
    ], host.robots)) : null,
  ];
}

/** All days of a time, also those on which nothing was asked. */
function whole(from, told) {
  const by = new Map(told.map((day) => [day.day, day]));
  const days = [];
  for (let at = Date.parse(from); at <= now(); at += 86_400_000) {
    const day = new Date(at).toISOString().slice(0, 10);
    days.push(by.get(day) ?? { day, requests: 0, bytes: 0, not_modified: 0, errors: 0 });
  }
  return days;
}

function asked({ from, days: told, last = [] }) {
  const days = whole(from, told);
  const sum = (name) => days.reduce((all, day) => all + (day[name] ?? 0), 0);
  if (!sum("requests") && !last.length) return nothing("Nothing was asked of it in this time.");
  const rest = (day) => Math.max(0, day.requests - day.not_modified - day.errors);
  return [
    h("p.body", null, `${exact(sum("requests"))} requests, ${bytes(sum("bytes"))}, ${exact(sum("not_modified"))} not modified, ${exact(sum("errors"))} errors`),
    chart({ at: days.map((day) => Date.parse(`${day.day}T00:00:00Z`)), height: 150, stacked: true, show: count, said: `${sum("requests")} requests in ${days.length} days`, series: [
      { label: "content", colour: "chart-ok", kind: "bar", values: days.map(rest) },
      { label: "not modified", colour: "chart-same", kind: "bar", values: days.map((day) => day.not_modified) },
      { label: "errors", colour: "chart-bad", kind: "bar", values: days.map((day) => day.errors) },
    ] }),
    plain("Last requests", [
      { label: "When", class: "fit", cell: (one) => when(one.at) },
      { label: "Address", class: "long", cell: (one) => h("a", { href: `/explain?q=${encodeURIComponent(one.url)}`, title: one.url }, bare(one.url)) },
      { label: "Answer", class: "fit", cell: (one) => [one.status ?? "–", " ", badge(one.code)] },
      { label: "Bytes", class: "num", cell: (one) => bytes(one.bytes) },
      { label: "Took", class: "num", cell: (one) => took(one.elapsed_ms) },
    ], last),
  ];
}

function slow(host, here, show) {
  dialog(`Slow down on ${host.name}`, (close) => {
    const delay = h("input", { name: "delay", value: host.slow_ms ? written(host.slow_ms) : "", placeholder: "the house's way; such as 10s", autofocus: true });
    const once = h("input", { name: "concurrency", type: "number", min: "1", max: "64", value: String(host.concurrency) });
    const said = h("div", { "aria-live": "polite" });
    const save = async () => {
      const body = { delay: delay.value.trim() || null };
      if (Number(once.value) !== host.concurrency) body.concurrency = Number(once.value);
      try {
        await api.patch(here, body);
        toast("Saved.");
        close(true);
        await show();
      } catch (error) {
        put(said, problem(error));
      }
    };
    return h("form.body", { onsubmit: (event) => event.preventDefault() },
      h("label.field", null, h("span", null, "At least so long between two requests"), delay),
      h("label.field", null, h("span", null, "Requests at once"), once),
      h("p.note", null, "What its robots.txt asks for holds in any case."),
      said, h("footer", null, button("Save", save, { kind: "primary" })));
  });
}

function block(host, here, show) {
  dialog(`Block ${host.name}`, (close) => {
    const long = h("select", { name: "for" }, [["1h", "for an hour"], ["24h", "for a day"], ["7d", "for a week"], ["", "until somebody unblocks it (opt-out)"]].map(([value, text]) => h("option", { value }, text)));
    const go = async () => {
      await api.post(`${here}/block`, long.value ? { for: long.value } : {});
      close(true);
      await show();
    };
    return h("form.body", { onsubmit: (event) => event.preventDefault() },
      h("label.field", null, h("span", null, "How long"), long),
      h("p.note", null, "Nothing is asked of it meanwhile; its addresses wait."),
      h("footer", null, button("Block", go, { kind: "danger", done: "It is not asked any more." })));
  });
}
