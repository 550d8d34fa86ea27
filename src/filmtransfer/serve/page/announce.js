// What a person hears who cannot see the page: two live regions, and, if asked for, the answer spoken.

import { byId } from "./dom.js";

const PAUSE = 80; // ms between clearing and setting, so that the same words are read again
const GAP = 2000; // ms between two answers of the live prediction, at least
const waiting = { polite: [], assertive: [] };

function put(kind, text) {
  const region = byId(kind);
  waiting[kind].push(text);
  if (waiting[kind].length > 1) return;
  region.textContent = "";
  setTimeout(() => {
    region.textContent = waiting[kind].join(" ");
    waiting[kind] = [];
  }, PAUSE);
}

export const announce = (text) => put("polite", text);
export const alarm = (text) => put("assertive", text);

let aloud = false;
export const setAloud = (on) => {
  aloud = on;
  if (!on) globalThis.speechSynthesis?.cancel();
};

function speak(text) {
  if (!aloud || !globalThis.speechSynthesis) return;
  speechSynthesis.cancel();
  speechSynthesis.speak(new SpeechSynthesisUtterance(text));
}

/** An answer that was asked for: always said. */
export function answer(text) {
  announce(text);
  speak(text);
}

/**
 * Answers of a live prediction come many times a second. `live()` makes a voice that says the newest one
 * only when it differs enough from what was said last, and never two within `GAP`.
 */
export function live(gap = GAP) {
  let said = { name: null, p: 0 };
  let next = 0; // when it may speak again
  let timer = null;
  let latest = null;

  function utter() {
    timer = null;
    if (latest.name === said.name && Math.abs(latest.p - said.p) < 0.15) return;
    said = latest;
    next = performance.now() + gap;
    answer(latest.text);
  }

  return {
    hear(name, p, text) {
      latest = { name, p, text };
      if (timer === null) timer = setTimeout(utter, Math.max(0, next - performance.now()));
    },
    stop() {
      clearTimeout(timer);
      timer = null;
    },
  };
}
