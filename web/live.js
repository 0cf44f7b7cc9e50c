// The event stream, read through fetch so that a token can be sent; it comes back by itself and goes
// on where it stopped.

import { api } from "./api.js";

const PAUSES = [1, 2, 5, 10, 30];

/** Calls `each(event)` for what happens from now on, and `state("live" | "waiting")` as it changes. */
export async function follow(query, signal, each, state = () => {}) {
  let last = null;
  let failures = 0;
  while (!signal.aborted) {
    try {
      const headers = { accept: "text/event-stream", ...(last && { "last-event-id": last }) };
      const reply = await api.raw("/events/stream", query, { headers, signal, quiet: true });
      state("live");
      failures = 0;
      for await (const message of messages(reply.body)) {
        if (message.id) last = message.id;
        if (message.data) each(JSON.parse(message.data));
      }
    } catch (error) {
      if (signal.aborted) return;
      if (error.status === 401 || error.status === 403) return state("waiting");
    }
    state("waiting");
    const pause = PAUSES[Math.min(failures, PAUSES.length - 1)];
    failures += 1;
    await new Promise((done) => {
      const timer = setTimeout(done, pause * 1000);
      signal.addEventListener("abort", () => (clearTimeout(timer), done()), { once: true });
    });
  }
}

/** The messages of a stream of server-sent events. */
async function* messages(body) {
  const reader = body.pipeThrough(new TextDecoderStream()).getReader();
  let rest = "";
  let message = {};
  for (;;) {
    const { value, done } = await reader.read();
    if (done) return;
    const lines = (rest + value).split(/\r\n|\n|\r/);
    rest = lines.pop();
    for (const line of lines) {
      if (line === "") {
        yield message;
        message = {};
        continue;
      }
      const colon = line.indexOf(":");
      if (colon === 0) continue;
      const field = colon < 0 ? line : line.slice(0, colon);
      const text = colon < 0 ? "" : line.slice(colon + 1).replace(/^ /, "");
      if (field === "data") message.data = message.data === undefined ? text : `${message.data}\n${text}`;
      else if (field === "id" || field === "event") message[field] = text;
    }
  }
}
