// Settings: what is set and by what, who may use the API, and who changed what through it.

import { api, path } from "../api.js";
import { h, put } from "../dom.js";
import { when } from "../format.js";
import { badge, button, coded, dialog, heading, load, nothing, problem, tabs, toast } from "../parts.js";
import { can } from "../session.js";
import { fillRows, plain, table } from "../table.js";

export function view({ root, signal, title, query }) {
  title("Settings");
  const entries = [{ name: "config", title: "Configuration", make: () => configuration(signal, query.q ?? "") }];
  if (can("admin")) {
    entries.push({ name: "tokens", title: "Tokens", make: () => tokens(signal) }, { name: "audit", title: "Changes", make: () => audit(signal) });
  }
  put(root, heading("Settings", { sub: "What is set, and by what" }), can("admin") ? null : needsAdmin(), tabs("Settings", entries, query.tab));
}

/** What is not offered, and how to get it. */
function needsAdmin() {
  return h("p.note", { id: "needs-admin" }, coded("Changing settings, and seeing tokens and changes, needs the scope admin. Open the login link that `feedmill run` prints on a terminal, or "), h("a", { href: "/login?next=%2Fsettings" }, "log in"), coded(" with a token that `feedmill token create NAME --scope admin` makes."));
}

function text(value) {
  return typeof value === "string" ? value : JSON.stringify(value);
}

/** A value to read: what is empty says so. */
function shown(value) {
  if (value === null || value === "") return h("span.none", null, "not set");
  if (Array.isArray(value) && !value.length) return h("span.none", null, "none");
  return h("span.mono", { title: text(value) }, Array.isArray(value) ? value.map(text).join(", ") : text(value));
}

function configuration(signal, asked) {
  const place = h("div.tablebox");
  const search = h("input", { type: "search", value: asked, placeholder: "part of a name, such as interval", "aria-label": "Search settings", dataset: { main: "" } });
  const show = () => load(place, signal, async () => {
    const { values } = await api.get("/config", null, { signal });
    const columns = [
      { label: "Setting", class: "title", cell: (one) => h("span.mono", null, one.key) },
      { label: "Value", class: "long", cell: (one) => shown(one.value) },
      { label: "Set by", class: "fit", cell: (one) => badge(one.origin, undefined, one.origin === "default" ? "plain" : "info") },
      ...(can("admin") ? [{ label: "", class: "acts", cell: (one) => [
        one.origin === "store" ? button("Undo", async () => {
          await api.delete(path`/config/${one.key}`);
          await show();
        }, { kind: "small", done: "The file, the environment and the defaults count again." }) : null,
        one.change === "running"
          ? h("button.small.quiet", { type: "button", "aria-label": `Change ${one.key}`, onclick: () => change(one, show) }, "Change")
          : h("span.none", { title: one.change === "file_only" ? "Changed in the configuration file only" : "Changed in the configuration file, counts from the next start on" }, "file"),
      ] }] : []),
    ];
    const whole = plain("Settings", columns, []);
    const filter = () => fillRows(whole.querySelector("tbody"), values.filter((one) => one.key.includes(search.value.trim().toLowerCase())), columns);
    search.oninput = filter;
    filter();
    return whole;
  }, 12);
  show();
  return [h("div.filters", null, h("label.field.wide", null, h("span", null, "Search"), search)), place];
}

function change({ key, value }, after) {
  dialog(key, (close) => {
    const field = h("input", { name: "value", value: text(value), autofocus: true, autocomplete: "off", spellcheck: "false" });
    const said = h("div", { "aria-live": "polite" });
    const save = async () => {
      try {
        await api.put(path`/config/${key}`, { value: field.value });
        toast("Saved. Engines take it over by themselves.");
        close(true);
        await after();
      } catch (error) {
        put(said, problem(error));
      }
    };
    return h("form.body", { onsubmit: (event) => event.preventDefault() },
      h("label.field", null, h("span", null, "Value"), field),
      h("p.note", null, "It is kept in the database and counts before the file."),
      said, h("footer", null, button("Save", save, { kind: "primary" })));
  });
}

function tokens(signal) {
  return [
    h("p.note", null, coded("Tokens are made and revoked by `feedmill token create` and `feedmill token revoke`: they are shown once and kept as hashes.")),
    table({ label: "Tokens", where: "/tokens", query: {}, signal, fixed: true, columns: [
      { label: "Name", class: "title", cell: (one) => h("span.strong", null, one.name) },
      { label: "Scope", class: "fit", cell: (one) => badge(one.scope, undefined, one.scope === "read" ? "plain" : "info") },
      { label: "Made", class: "num", cell: (one) => when(one.created_at) },
      { label: "Last used", class: "num", cell: (one) => when(one.last_used_at, "never") },
    ], empty: nothing("No tokens.", "On loopback none is needed.") }).node,
  ];
}

function audit(signal) {
  return table({ label: "Changes", where: "/audit", query: {}, signal, columns: [
    { label: "When", class: "fit", cell: (one) => when(one.at) },
    { label: "Who", class: "title", cell: (one) => h("span.strong", null, one.who) },
    { label: "What", class: "long", cell: (one) => h("span.mono", { title: one.path }, `${one.method} ${one.path}`) },
    { label: "Answer", class: "num", cell: (one) => badge(String(one.status), undefined, one.status < 400 ? "good" : "bad") },
  ], empty: nothing("Nothing was changed through the API yet.") }).node;
}
