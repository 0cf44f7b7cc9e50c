// A sink: what it has, what holds it up, and what it could not take.

import { api, path } from "../api.js";
import { every, h, put } from "../dom.js";
import { count, exact, span, when } from "../format.js";
import { badge, button, dialog, facts, heading, nothing, problem, section, skeleton, sure, tile, toast } from "../parts.js";
import { can } from "../session.js";
import { table } from "../table.js";
import { switcher } from "./sinks.js";

export async function view({ root, signal, go, title, id }) {
  title(id);
  const here = path`/sinks/${id}`;
  const place = h("div.stack", null, skeleton(4));
  const show = async () => put(place, page(await api.get(here, null, { signal })));
  const after = async () => {
    await show();
    letters.refresh();
  };
  const letters = table({ label: "Dead letters", where: `${here}/dead_letters`, query: {}, signal, empty: nothing("No dead letters.", "An event that a sink refuses stands here, so that it holds up no other."), columns: [
    { label: "Event", class: "num", cell: (one) => `#${one.seq}` },
    { label: "When", class: "fit", cell: (one) => when(one.at) },
    { label: "Code", class: "fit", cell: (one) => badge(one.code, undefined, "bad") },
    { label: "Reason", class: "long", cell: (one) => h("span", { title: one.reason }, one.reason) },
    { label: "Attempts", class: "num", cell: (one) => String(one.attempts) },
    { label: "", class: "acts", cell: (one) => (one.again ? badge("tried again soon", undefined, "info") : can("write") && button("Retry", async () => {
      await api.post(`${here}/retry`, { seq: one.seq });
      await after();
    }, { kind: "small", done: "It is tried again." })) },
  ] });

  const page = (sink) => [
    heading(sink.name, { sub: [badge(sink.kind ?? "unknown", undefined, "plain"), " ", badge(sink.state)], actions: can("write") && [
      button("Test", async () => (await api.post(`${here}/test`)).target, { done: (target) => `It answers: ${target}` }),
      switcher(sink, after),
      h("button", { type: "button", onclick: () => replay(sink, here, after) }, "Replay"),
      sink.dead_letters ? button("Retry dead letters", async () => {
        const got = await api.post(`${here}/retry`, {});
        await after();
        return got.events;
      }, { done: (events) => `${exact(events)} events are tried again.` }) : null,
      sink.dead_letters ? button("Give up dead letters", async () => {
        if (!(await sure("Give up all dead letters?", "The sink will never get these events.", "Give up"))) return false;
        await api.post(`${here}/retry`, { give_up: true });
        await after();
      }, { kind: "danger", done: "Given up." }) : null,
      sink.configured ? null : button("Forget", async () => {
        if (!(await sure(`Forget ${sink.name}?`, "Its place in the log and its dead letters are forgotten.", "Forget"))) return false;
        await api.delete(here);
        go("/sinks");
      }, { kind: "danger", done: "Forgotten." }),
    ] }),
    sink.last_error ? h("div.remark.bad", null, h("b", null, sink.state === "held_up" ? "Held up: " : "Last error: "), sink.last_error) : null,
    h("div.tiles", null,
      tile("Lag", sink.lag_events ? exact(sink.lag_events) : "none", sink.lag_events ? `events; the oldest waits ${span((sink.lag_seconds ?? 0) * 1000)}` : "it has everything", { colour: sink.lag_seconds > 3600 ? "bad" : "" }),
      tile("Its place in the log", `#${exact(sink.seq)}`, `of #${exact(sink.seq + sink.lag_events)}`),
      tile("Delivered", count(sink.delivered), "events so far"),
      tile("Dead letters", exact(sink.dead_letters), " ", { colour: sink.dead_letters ? "bad" : "" })),
    section("State", {}, h("div.body", null, facts([
      ["Configured as", sink.configured ?? "not configured any more"],
      ["Paused", sink.paused_at && when(sink.paused_at)],
      ["Last moved", when(sink.updated_at)],
      ["Delivered by", sink.held_by],
    ]))),
  ];
  put(root, place, section("Dead letters", {}, letters.node));
  await show();
  every(10, signal, () => show().catch(() => {}));
}

function replay(sink, here, after) {
  dialog(`Replay to ${sink.name}`, (close) => {
    const from = h("select", { name: "from" }, [["beginning", "the beginning of the log"], ["time", "a time"], ["after", "an event's number"], ["now", "now: skip what it has not got"]].map(([value, text]) => h("option", { value }, text)));
    const time = h("input", { name: "time", type: "datetime-local" });
    const seq = h("input", { name: "after", type: "number", min: "0", value: String(sink.seq) });
    const said = h("div", { "aria-live": "polite" });
    const [timeBox, seqBox] = [h("label.field", { hidden: true }, h("span", null, "Since"), time), h("label.field", { hidden: true }, h("span", null, "Everything after event"), seq)];
    from.addEventListener("change", () => {
      timeBox.hidden = from.value !== "time";
      seqBox.hidden = from.value !== "after";
    });
    const run = async () => {
      try {
        const body = from.value === "after" ? { after: Number(seq.value) } : { from: from.value === "time" ? new Date(time.value).toISOString() : from.value };
        await api.post(`${here}/replay`, body);
        toast("It gets the log again from there.");
        close(true);
        await after();
      } catch (error) {
        put(said, problem(error.status === undefined ? { message: "Choose a time first." } : error));
      }
    };
    return h("form.body", { onsubmit: (event) => event.preventDefault() },
      h("label.field", null, h("span", null, "Deliver the log again from"), from), timeBox, seqBox,
      h("p.note", null, "Whoever reads it must cope with events it had: they have the same numbers."),
      said, h("footer", null, button("Replay", run, { kind: "primary" })));
  });
}
