// Selectors of a source: what they gain and lose on its last pages, side by side, before they are kept.

import { api } from "./api.js";
import { h, put } from "./dom.js";
import { bare, words } from "./format.js";
import { badge, button, nothing, problem, section, toast } from "./parts.js";
import { can } from "./session.js";
import { selectorFields } from "./sourceform.js";

export function selectorsTest(source, here, again) {
  const { nodes, values } = selectorFields(source.selectors, !can("write"));
  const pages = h("input", { type: "number", name: "pages", min: "1", max: "50", value: "5" });
  const said = h("div", { "aria-live": "polite" });
  const test = async () => {
    try {
      put(said, compared(await api.post(`${here()}/test`, { selectors: values(), pages: Number(pages.value) || 5 })));
    } catch (error) {
      put(said, problem(error));
    }
  };
  const keep = async () => {
    await api.patch(here(), { selectors: values() });
    toast("Saved. Pages that are fetched from now on are read with it.");
    await again();
  };
  return [
    section("Where the parts of its articles stand", { note: "CSS selectors; what is empty is told by the page" },
      h("form.form", { onsubmit: (event) => event.preventDefault() }, nodes,
        h("footer", null, h("label.field", null, h("span", null, "Pages"), pages), can("write") && button("Test", test, { title: "On pages in the archive: nobody is asked" }), can("write") && button("Save", keep, { kind: "primary" })))),
    said,
  ];
}

function text(value) {
  if (value === null || value === undefined || value === "") return h("span.none", null, "nothing");
  return typeof value === "string" ? value : JSON.stringify(value, null, 1);
}

function compared({ pages }) {
  if (!pages.length) return h("section.card", null, nothing("No pages of it are kept.", "Let it be fetched first."));
  return pages.map((page) => section(bare(page.url), { aside: [badge(page.before, "before", "plain"), "→", badge(page.after, "after", page.before === page.after ? "plain" : "good")] },
    h("div.body", null, page.fields.length
      ? page.fields.map((field) => [h("h3", null, words(field.field)), h("div.compare", null, h("pre.log", { "aria-label": "before" }, text(field.before)), h("pre.log", { "aria-label": "after" }, text(field.after)))])
      : h("p.note", null, "No difference."))));
}
