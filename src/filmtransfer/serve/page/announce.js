// Announcements for screen readers in two live regions, and optionally spoken predictions.

import { byId } from "./dom.js";

const PAUSE = 80; // ms between clearing and setting, so that the same text is read again
const HOLD = 1000; // ms that a polite announcement stays before the next one: a screen reader must notice both
const GAP = 2000; // minimum ms between two announcements of the live prediction
const waiting = { polite: [], assertive: [] };
const shownAt = { polite: -HOLD, assertive: -HOLD };

/** Adds a text to those that are announced next; it takes the place of one with the same topic. */
function queue(kind, text, topic = null) {
  const region = byId(kind);
  const first = waiting[kind].length === 0;
  waiting[kind] = waiting[kind].filter((other) => topic === null || other.topic !== topic);
  waiting[kind].push({ text, topic });
  if (!first) return;
  const hold = kind === "polite" ? shownAt.polite + HOLD - performance.now() : 0;
  setTimeout(
    () => {
      region.textContent = "";
      setTimeout(() => {
        region.textContent = waiting[kind].map((one) => one.text).join(" ");
        waiting[kind] = [];
        shownAt[kind] = performance.now();
      }, PAUSE);
    },
    Math.max(0, hold),
  );
}

export const announce = (text) => queue("polite", text);
export const alert = (text) => queue("assertive", text);

let speech = false;
export const setSpeech = (on) => {
  speech = on;
  if (!on) globalThis.speechSynthesis?.cancel();
};

function speak(text) {
  if (!speech || !globalThis.speechSynthesis) return;
  speechSynthesis.cancel();
  speechSynthesis.speak(new SpeechSynthesisUtterance(text));
}

/** Announces and, if enabled, speaks a prediction. */
export function announcePrediction(text) {
  queue("polite", text, "prediction");
  speak(text);
}

/**
 * Returns an announcer for live predictions, which change many times a second: it announces the newest one
 * only if it differs enough from the last announcement, and never two within `GAP`.
 */
export function liveAnnouncer(gap = GAP) {
  let last = { name: null, p: 0 };
  let next = 0; // time of the next possible announcement
  let timer = null;
  let latest = null;

  function announceLatest() {
    timer = null;
    if (latest.name === last.name && Math.abs(latest.p - last.p) < 0.15) return;
    last = latest;
    next = performance.now() + gap;
    announcePrediction(latest.text);
  }

  return {
    update(name, p, text) {
      latest = { name, p, text };
      if (timer === null) timer = setTimeout(announceLatest, Math.max(0, next - performance.now()));
    },
    stop() {
      clearTimeout(timer);
      timer = null;
    },
  };
}
