// Adding a source: an address, a look at what the publisher has, and a yes.

import { api } from "./api.js";
import { h, put } from "./dom.js";
import { bare, when, words } from "./format.js";
import { badge, button, dialog, problem, skeleton, toast } from "./parts.js";

/** Asks for a source and stores it. Resolves with it, or nothing. */
export function addSource() {
  return dialog("Add a source", (close) => {
    const url = h("input", { name: "url", type: "text", inputmode: "url", required: true, placeholder: "https://example.com", autocomplete: "off", spellcheck: "false", autofocus: true });
    const name = h("input", { name: "name", placeholder: "its host", autocomplete: "off" });
    const category = h("input", { name: "category", autocomplete: "off", placeholder: "none" });
    const mode = h("select", { name: "ingestion_mode" }, [["feed", "feeds and sitemaps"], ["spider", "a walk over its pages"], ["both", "both"]].map(([value, text]) => h("option", { value }, text)));
    const lines = (name, placeholder) => h("textarea", { name, rows: "1", placeholder, spellcheck: "false" });
    const [feeds, maps] = [lines("feed_urls", "one a line"), lines("sitemap_urls", "one a line")];
    const every = h("input", { name: "poll_interval", placeholder: "none; such as 30m", autocomplete: "off" });
    const said = h("div", { "aria-live": "polite" });
    let seen = null;

    const address = () => (/^[a-z][a-z0-9+.-]*:/i.test(url.value.trim()) ? url.value.trim() : `https://${url.value.trim()}`);
    const look = async () => {
      if (!form.reportValidity()) return false;
      put(said, h("p.note", null, "Asking the publisher, politely: this can take a minute."), skeleton(4));
      try {
        seen = found(await api.post("/sources/discover", { url: address() }));
        put(said, seen.node);
      } catch (error) {
        put(said, problem(error));
      }
    };
    const add = async () => {
      const body = { url: address(), ingestion_mode: mode.value };
      if (name.value.trim()) body.name = name.value.trim();
      if (category.value.trim()) body.category = category.value.trim();
      if (every.value.trim()) body.poll_interval = every.value.trim();
      // What was looked at and chosen need not be looked for again.
      const chosen = seen?.chosen() ?? { feed_urls: [], sitemap_urls: [] };
      for (const [field, urls] of [[feeds, chosen.feed_urls], [maps, chosen.sitemap_urls]]) {
        const all = [...new Set([...urls, ...field.value.split(/\s+/).filter(Boolean)])];
        if (all.length) body[field.name] = all;
      }
      try {
        const made = await api.post("/sources", body);
        toast(`${made.name} is followed.`);
        close(made);
      } catch (error) {
        put(said, problem(error));
      }
    };
    const form = h("form.body", { onsubmit: (event) => (event.preventDefault(), go.click()) },
      h("label.field", null, h("span", null, "Address of the publisher, or of a feed"), url),
      h("div.compare", null,
        h("label.field", null, h("span", null, "Name"), name),
        h("label.field", null, h("span", null, "Category"), category)),
      h("div.compare", null,
        h("label.field", null, h("span", null, "Articles are found by"), mode),
        h("label.field", null, h("span", null, "Fixed interval between polls"), every)),
      h("details", null, h("summary", null, "Feeds and sitemaps that you know"),
        h("div.compare", null,
          h("label.field", null, h("span", null, "Feeds"), feeds),
          h("label.field", null, h("span", null, "Sitemaps"), maps))),
      said);
    const go = button("Add source", add, { kind: "primary" });
    form.append(h("footer", null, button("Look first", look, { title: "Shows feeds and sitemaps before anything is stored" }), go));
    url.addEventListener("input", () => {
      seen = null;
      put(said);
    });
    return form;
  });
}

/** What a look found, to choose from. */
function found({ found: channels, tried = [], left = [], newest = [] }) {
  const boxes = channels.map((one) => ({ one, box: h("input", { type: "checkbox", checked: true }) }));
  const node = h("div", null,
    channels.length ? h("h3", null, "Found") : h("div.remark.warn", null, h("b", null, "No feed and no sitemap was found."), h("p", null, "It can be added all the same: then its home page is looked at again, or choose a walk over its pages.")),
    h("div.choices", null, boxes.map(({ one, box }) => h("label.choice", null, box, h("div", null,
      h("p", null, h("b", null, one.title || bare(one.url)), " ", badge(one.kind, undefined, "plain")),
      h("p.under", null, one.url),
      h("p.under", null, [`${one.items} items`, one.news && "news", one.how && words(typeof one.how === "string" ? one.how : Object.keys(one.how)[0])].filter(Boolean).join(" · "), one.newest ? [", newest ", when(one.newest)] : null))))),
    newest.length ? [h("h3", null, "Newest items"), h("ul.lines", null, newest.slice(0, 5).map((item) => h("li.under", null, item.title || bare(item.link), " ", when(item.published, ""))))] : null,
    tried.length ? h("details", null, h("summary", null, `Looked at in vain: ${tried.length}`), h("ul", null, tried.map((one) => h("li.under", null, `${bare(one.url)}: ${one.why}`)))) : null,
    left.length ? h("p.under", null, `Not looked at: ${left.length} more that the site declares.`) : null);
  const chosen = () => {
    const urls = (kind) => boxes.filter(({ one, box }) => box.checked && one.kind === kind).map(({ one }) => one.url);
    return { feed_urls: urls("feed"), sitemap_urls: urls("sitemap") };
  };
  return { node, chosen };
}
