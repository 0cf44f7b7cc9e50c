// Explain: one field, and the trail of decisions about an address, a source or a host.

import { api } from "../api.js";
import { h, put } from "../dom.js";
import { absolute, now, relative, words } from "../format.js";
import { badge, coded, heading, load, nothing, section, tone } from "../parts.js";

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
  load(place, signal, async () => trail(await api.get("/explain", { q: query.q }, { signal })), 6);
}

const DRAWN = ["what", "name", "summary", "steps"];

function trail(told) {
  const steps = told.steps ?? [];
  const rest = Object.fromEntries(Object.entries(told).filter(([key, value]) => !DRAWN.includes(key) && value !== null));
  return [
    h("div.remark", null, h("b", null, told.name ?? ""), " ", told.what && badge(told.what), h("p", null, told.summary ?? "")),
    steps.length ? section("The trail", { note: "in the order of time" }, h("ol.trail", null, steps.map(step))) : h("section.card", null, nothing("Nothing has happened to it yet.")),
    Object.keys(rest).length ? h("details", null, h("summary", null, "Everything, as the API tells it"), h("pre.log", null, JSON.stringify(rest, null, 2))) : null,
  ];
}

function step(one) {
  const future = one.at && Date.parse(one.at) > now();
  const facts = Object.entries(one.facts ?? {}).filter(([, value]) => value !== null && value !== "");
  return h("li", { class: future ? "future" : "" },
    h("span.at", null, one.at ? h("time", { datetime: one.at, title: absolute(one.at) }, relative(one.at)) : ""),
    h("span.dot", { class: tone(one.code ?? one.stage) }),
    h("div.what", null,
      h("p", null, h("span.stage", null, words(one.stage)), one.code && badge(one.code)),
      h("p", null, one.text ? coded(one.text) : ""),
      facts.length ? h("p.small", null, facts.map(([key, value]) => `${words(key)}: ${typeof value === "object" ? JSON.stringify(value) : value}`).join(" · ")) : null,
      one.link && /^\/(?!\/)/.test(one.link) ? h("a", { href: one.link }, "Look at it") : null));
}
