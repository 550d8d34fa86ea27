// The server-sent events of a training. EventSource cannot send a token, so the response is parsed here;
// after a lost connection it continues after the last event that was received.

import * as api from "./api.js";
import { pause, untilConnected } from "./connection.js";

/** Returns a function that takes pieces of text and returns the events that are complete. */
export function parser() {
  let incomplete = "";
  return (text) => {
    const blocks = (incomplete + text).replaceAll("\r\n", "\n").split("\n\n");
    incomplete = blocks.pop();
    return blocks.map(parse).filter((event) => event !== null);
  };
}

function parse(block) {
  const fields = { id: "", event: "message", data: [] };
  for (const line of block.split("\n")) {
    const at = line.indexOf(":");
    if (at <= 0) continue;
    const name = line.slice(0, at);
    const value = line.slice(at + 1).replace(/^ /, "");
    if (name === "data") fields.data.push(value);
    else if (name in fields) fields[name] = value;
  }
  if (!fields.data.length) return null;
  return {
    number: fields.id ? Number(fields.id) : null,
    kind: fields.event,
    data: JSON.parse(fields.data.join("\n")),
  };
}

/** Calls `onEvent` for every event of a training until its end; reconnects when the connection is lost. */
export async function follow(id, onEvent, signal) {
  let last = 0;
  while (!signal.aborted) {
    try {
      const response = await api.events(id, last, signal);
      const reader = response.body.pipeThrough(new TextDecoderStream()).getReader();
      const feed = parser();
      for (;;) {
        const { value, done } = await reader.read();
        if (done) break;
        for (const event of feed(value)) {
          if (event.number !== null && event.number <= last) continue;
          last = event.number ?? last; // a repeated end event has no number
          onEvent(event);
          if (event.kind === "end") return;
        }
      }
    } catch (error) {
      if (signal.aborted) return;
      if (error instanceof api.ServiceError && error.status !== 0 && error.status !== 503) throw error;
    }
    await pause(1000);
    await untilConnected();
  }
}
