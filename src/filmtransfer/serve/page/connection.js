// Whether the service answers. When it stops, ask again until it does, and let those who wait go on.

const FIRST = 500;
const LONGEST = 5000;
const listeners = new Set();
let gone = false;
let waiting = [];

export const isGone = () => gone;
export const onConnection = (listener) => listeners.add(listener);

/** Called by whoever could not reach the service. */
export function lost() {
  if (gone) return;
  gone = true;
  listeners.forEach((listener) => listener(false));
  ask(FIRST);
}

/** Resolves when the service answers (at once if it does). */
export function back() {
  return gone ? new Promise((resolve) => waiting.push(resolve)) : Promise.resolve();
}

async function ask(delay) {
  await new Promise((resolve) => setTimeout(resolve, delay));
  let alive = false;
  try {
    alive = (await fetch("/healthz", { cache: "no-store" })).ok;
  } catch {
    alive = false;
  }
  if (!alive) return ask(Math.min(2 * delay, LONGEST));
  gone = false;
  listeners.forEach((listener) => listener(true));
  const ready = waiting;
  waiting = [];
  ready.forEach((resolve) => resolve());
}
