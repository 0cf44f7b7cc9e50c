// Importing a list of sources: a rehearsal first, then the deed.

import { api } from "./api.js";
import { h, put } from "./dom.js";
import { badge, button, dialog, problem, toast } from "./parts.js";
import { plain } from "./table.js";

const SHOWN = 200;

/** Resolves with true when sources were added. */
export function importSources() {
  return dialog("Import sources", (close) => {
    const file = h("input", { type: "file", name: "file", accept: ".opml,.xml,.csv,.json,.ndjson,.txt" });
    const text = h("textarea", { name: "text", rows: "6", spellcheck: "false", autofocus: true, placeholder: "or paste the list here: OPML, CSV, JSON, or an address a line" });
    const format = h("select", { name: "format" }, [["", "told by its content"], ["opml", "OPML"], ["csv", "CSV"], ["json", "JSON"], ["urls", "addresses"]].map(([value, name]) => h("option", { value }, name)));
    const said = h("div", { "aria-live": "polite" });
    file.addEventListener("change", async () => (text.value = (await file.files[0]?.text()) ?? ""));
    const send = (dry) => api.post(`/sources/import?dry_run=${dry}${format.value ? `&format=${format.value}` : ""}`, text.value, { headers: { "content-type": "application/octet-stream" } });
    const rehearse = async () => {
      try {
        put(said, rows(await send(true), "would be"));
      } catch (error) {
        put(said, problem(error));
      }
    };
    const run = async () => {
      try {
        const done = await send(false);
        toast(`${done.added} sources were added, ${done.known} were known, ${done.refused} refused.`);
        if (done.refused) put(said, rows(done, "were"));
        else close(true);
      } catch (error) {
        put(said, problem(error));
      }
    };
    return h("div.body", null,
      h("div.compare", null, h("label.field", null, h("span", null, "File"), file), h("label.field", null, h("span", null, "Format"), format)),
      h("label.field", null, h("span", null, "List"), text),
      said,
      h("footer", null, button("Rehearse", rehearse, { title: "Shows what would happen; nothing is stored" }), button("Import", run, { kind: "primary" })));
  }, { wide: true });
}

function rows({ format, added, known, refused, notes = [], rows: all }, were) {
  return [
    h("p", null, h("b", null, `${added} ${were} added`), `, ${known} known, ${refused} refused (${format}).`),
    notes.map((note) => h("p.note", null, note)),
    plain("Rows of the list", [
      { label: "Line", class: "num", cell: (row) => String(row.line) },
      { label: "Result", class: "fit", cell: (row) => badge(row.result) },
      { label: "Name", class: "some", cell: (row) => h("span", null, row.name ?? "") },
      { label: "Address", class: "long", cell: (row) => [h("span", null, row.address ?? ""), row.reason && h("span.under", null, row.reason)] },
    ], all.slice(0, SHOWN)),
    all.length > SHOWN ? h("p.note", null, `and ${all.length - SHOWN} more rows`) : null,
  ];
}
