// Tables that the server pages, and the filters above them, which live in the address.

import { page, params } from "./api.js";
import { h, put, settle } from "./dom.js";
import { exact } from "./format.js";
import { nothing, problem } from "./parts.js";

const SIZES = [25, 50, 100, 200];
// So many parts of a search are put together before somebody is shown what there is.
const PARTS = 40;
const SIZE_KEY = "feedmill.rows";

function size() {
  const kept = Number(localStorage.getItem(SIZE_KEY));
  return SIZES.includes(kept) ? kept : 50;
}

/**
 * A table of a list of the API.
 *
 * `columns`: `{label, cell(item), class, sort}`; `href(item)` makes rows open something. `sorted`
 * tells that a head was clicked; a `fixed` list comes whole, without pages. `refresh()` reads the same page again, `show(query)` begins anew.
 */
export function table({ label, where, query, columns, href, empty, signal, sorted, fixed = false }) {
  let asked = query;
  let cursors = [null];
  let turn = 0;
  const body = h("tbody");
  const status = h("span.status", { role: "status" });
  const back = h("button.quiet", { type: "button", disabled: true, onclick: () => (cursors.pop(), read()) }, "‹ Previous");
  const on = h("button.quiet", { type: "button", disabled: true }, "Next ›");
  const chooser = h("select", { "aria-label": "Rows on a page", onchange: () => {
    localStorage.setItem(SIZE_KEY, chooser.value);
    cursors = [null];
    read();
  } }, SIZES.map((one) => h("option", { value: one, selected: one === size() }, `${one} rows`)));
  const turns = h("span.turns", { hidden: true }, chooser, back, on);
  const head = h("tr");
  const heads = () => put(head, columns.map((column) => headOf(column, asked.sort, sorted)));
  const pager = fixed ? null : h("div.pager", null, status, h("span.grow"), turns);
  const node = h("div.tablebox", null, h("div.scroll", null, h("table", { "aria-label": label }, h("thead", null, head), body)), pager);

  // A search for what is rare comes in short parts: they are put together, for a while.
  const look = async (mine) => {
    if (fixed) return page(where, asked, signal);
    const wanted = size();
    let got = await page(where, { ...asked, limit: wanted, cursor: cursors.at(-1) }, signal);
    for (let more = PARTS; more > 0 && got.next && got.items.length < wanted && mine === turn; more -= 1) {
      const part = await page(where, { ...asked, limit: wanted - got.items.length, cursor: got.next }, signal);
      got = { ...part, items: [...got.items, ...part.items] };
    }
    return got;
  };
  const read = async (still = false) => {
    const mine = (turn += 1);
    if (!still || !body.childElementCount) waiting(body, columns, fixed ? 6 : 20);
    node.setAttribute("aria-busy", "true");
    try {
      const got = await look(mine);
      if (mine !== turn || signal.aborted) return;
      fillRows(body, got.items, columns, href);
      if (!got.items.length) {
        const said = got.next ? nothing("Nothing so far. The search has looked at much.", "Next looks further.") : typeof empty === "function" ? empty(asked) : empty;
        put(body, h("tr.empty", null, h("td", { colspan: columns.length }, said ?? nothing("Nothing is here."))));
      }
      const page_no = cursors.length;
      const said = got.items.length === 1 ? "1 row" : `${got.items.length} rows`;
      put(status, got.total !== undefined ? `${exact(got.total)} in all` : got.next || page_no > 1 ? `Page ${page_no}, ${said}` : said);
      // Whoever sees all of it needs no pages.
      pager?.toggleAttribute("hidden", page_no === 1 && !got.items.length && !got.next);
      turns.hidden = page_no === 1 && !got.next && got.items.length <= SIZES[0];
      back.disabled = page_no === 1;
      on.disabled = !got.next;
      on.onclick = () => (cursors.push(got.next), read());
    } catch (error) {
      if (error.name === "AbortError" || mine !== turn) return;
      put(body, h("tr.empty", null, h("td", { colspan: columns.length }, problem(error, () => read()))));
    } finally {
      if (mine === turn) node.removeAttribute("aria-busy");
    }
  };
  heads();
  read();
  return {
    node,
    refresh: () => read(true),
    show: (next) => {
      asked = next;
      cursors = [null];
      heads();
      return read(true);
    },
  };
}

function headOf(column, sort, sorted) {
  const props = { scope: "col", class: column.class };
  if (!column.sort || !sorted) return h("th", props, column.label);
  const [up, down] = [column.sort, `-${column.sort}`];
  const way = sort === up ? "ascending" : sort === down ? "descending" : null;
  const mark = way === "ascending" ? " ↑" : way === "descending" ? " ↓" : "";
  return h("th", { ...props, "aria-sort": way }, h("button.sort", { type: "button", onclick: () => sorted(sort === up ? down : up) }, column.label + mark));
}

function waiting(body, columns, rows) {
  put(body, Array.from({ length: rows }, () => h("tr.wait", { "aria-hidden": "true" }, columns.map((column) => h("td", { class: column.class }, h("i"))))));
}

/** The rows of a table. Enter opens one, the arrows go up and down. */
export function fillRows(body, items, columns, href) {
  put(body, items.map((item) => {
    const cells = columns.map((column) => h("td", { class: column.class, dataset: { label: column.label } }, column.cell(item)));
    const to = href?.(item);
    if (!to) return h("tr", null, cells);
    return h("tr.open", { tabindex: "0", dataset: { href: to }, onclick: open, onkeydown: keyed }, cells);
  }));
}

function open(event) {
  if (event.target.closest("a, button, input, select, label")) return;
  if (String(getSelection())) return;
  leave(event.currentTarget.dataset.href, event);
}

function keyed(event) {
  if (event.target !== event.currentTarget) return;
  const row = event.currentTarget;
  if (event.key === "Enter") leave(row.dataset.href, event);
  const next = { ArrowDown: row.nextElementSibling, ArrowUp: row.previousElementSibling }[event.key];
  if (next) {
    event.preventDefault();
    next.focus();
  }
}

function leave(href, event) {
  event.preventDefault();
  if (event.metaKey || event.ctrlKey) window.open(href, "_blank", "noopener");
  else dispatchEvent(new CustomEvent("feedmill:go", { detail: href }));
}

/** A table of what is at hand. */
export function plain(label, columns, items, href) {
  const body = h("tbody");
  fillRows(body, items, columns, href);
  return h("div.scroll", null, h("table", { "aria-label": label },
    h("thead", null, h("tr", null, columns.map((column) => h("th", { scope: "col", class: column.class }, column.label)))), body));
}

/**
 * Filters of a list: `fields` of `{name, label, options | type, wide}`. What is chosen stands in the
 * address, so that a filtered list can be kept and sent; `changed(query)` reads the list again.
 */
export function filters(base, fields, query, changed) {
  const values = { ...query };
  const count = () => fields.filter((field) => values[field.name]).length;
  const clear = h("button.quiet", { type: "button", onclick: () => {
    for (const field of fields) {
      delete values[field.name];
      inputs.get(field.name).value = "";
    }
    tell();
  } });
  const tell = () => {
    clear.hidden = !count();
    clear.textContent = count() > 1 ? `Clear ${count()} filters` : "Clear filter";
    history.replaceState(null, "", base + params(values));
    changed({ ...values });
  };
  const soon = settle(tell);
  const inputs = new Map();
  const made = fields.map((field) => {
    const current = values[field.name] ?? "";
    const took = (event) => {
      if (event.target.value) values[field.name] = event.target.value;
      else delete values[field.name];
      (event.type === "input" ? soon : tell)();
    };
    const input = field.options
      ? h("select", { name: field.name, onchange: took }, optionsOf(field, current))
      : h("input", { name: field.name, type: field.type ?? "search", value: current, placeholder: field.hint, autocomplete: "off", spellcheck: "false", oninput: took, dataset: field.main ? { main: "" } : {} });
    inputs.set(field.name, input);
    return h("label.field", { class: field.wide ? "wide" : "" }, h("span", null, field.label), input);
  });
  clear.hidden = !count();
  clear.textContent = count() > 1 ? `Clear ${count()} filters` : "Clear filter";
  const node = h("form.filters", { role: "search", onsubmit: (event) => (event.preventDefault(), tell()) }, made, clear);
  return {
    node,
    set: (more) => {
      for (const [name, value] of Object.entries(more)) {
        if (value) values[name] = value;
        else delete values[name];
        if (inputs.has(name)) inputs.get(name).value = value ?? "";
      }
      tell();
    },
  };
}

function optionsOf(field, current) {
  const all = field.options.map((one) => (Array.isArray(one) ? one : [one, one.replaceAll("_", " ")]));
  const known = !current || all.some(([value]) => value === current);
  return [["", field.any ?? "any"], ...all, ...(known ? [] : [[current, current]])]
    .map(([value, text]) => h("option", { value, selected: value === current }, text));
}
