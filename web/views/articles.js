// Articles: what was read, newest first.

import { path } from "../api.js";
import { h, put } from "../dom.js";
import { bare, exact, when } from "../format.js";
import { badge, heading, nothing } from "../parts.js";
import { filters, table } from "../table.js";

export function view({ root, signal, title, query }) {
  title("Articles");
  const list = table({
    label: "Articles", where: "/articles", query, signal,
    href: (one) => path`/articles/${one.id}`,
    columns: [
      { label: "Title", class: "long", cell: (one) => [h("a.strong", { href: path`/articles/${one.id}`, tabindex: "-1", title: one.title }, one.title || bare(one.url)), h("span.under", { title: one.url }, marks(one), " ", bare(one.url))] },
      { label: "Source", class: "some", cell: (one) => (one.source ? h("a", { href: path`/sources/${one.source_id}`, title: one.source }, one.source) : h("span.none", null, "–")) },
      { label: "Language", class: "fit", cell: (one) => one.language ?? "–" },
      { label: "Words", class: "num", cell: (one) => exact(one.word_count) },
      { label: "Published", class: "num", cell: (one) => when(one.published) },
      { label: "First seen", class: "num", cell: (one) => when(one.first_seen) },
    ],
    empty: (asked) => (Object.keys(asked).length ? nothing("No article fits.", "Clear the filters to see all.") : nothing("No articles yet.", "They appear once pages were fetched and read.")),
  });
  const bar = filters("/articles", [
    { name: "q", label: "Search", hint: "words of the title", main: true, wide: true },
    { name: "source", label: "Source", hint: "name or id" },
    { name: "category", label: "Category" },
    { name: "tag", label: "Tag" },
    { name: "language", label: "Language", hint: "en" },
    { name: "duplicates", label: "Duplicates", options: [["false", "leave out"], ["true", "only these"]], any: "shown" },
  ], query, list.show);
  put(root, heading("Articles", { sub: "What was read, newest first" }), bar.node, list.node);
}

export function marks(article) {
  return [
    article.duplicate_of && badge("duplicate", "it has the very text of an earlier article", "warn"),
    article.near && badge(article.near.wire ? "wire copy" : "near copy", `${Math.round(article.near.share * 100)} % of its text is another's`, "plain"),
    article.revision > 1 && badge(`revision ${article.revision}`, undefined, "info"),
  ].filter(Boolean);
}
