// A training's events as they come. EventSource cannot carry a token, so the stream is read here;
// when it breaks it goes on after the last event it has seen.

import * as api from "./api.js";
import { back } from "./connection.js";

/** Cuts a text stream into events; `feed` returns those that are complete. */
export function parser() {
  let rest = "";
  return (text) => {
    const blocks = (rest + text).replaceAll("\r\n", "\n").split("\n\n");
    rest = blocks.pop();
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

/** Calls `told` for every event of a training until its end, whatever happens to the connection. */
export async function follow(id, told, signal) {
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
          last = event.number ?? last; // an end that is told once more has no number
          told(event);
          if (event.kind === "end") return;
        }
      }
    } catch (problem) {
      if (signal.aborted) return;
      if (problem instanceof api.ServiceError && problem.status !== 0 && problem.status !== 503)
        throw problem;
    }
    await new Promise((resolve) => setTimeout(resolve, 1000));
    await back();
  }
}
