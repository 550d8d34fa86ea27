// Whether the service responds. After a lost connection it is polled until it responds again.

const FIRST_DELAY = 500; // ms
const MAX_DELAY = 5000;
export const pause = (ms) => new Promise((resolve) => setTimeout(resolve, ms));
const listeners = new Set();
let isLost = false;
let waiting = [];

export const onConnection = (listener) => listeners.add(listener);

/** Reports that the service could not be reached. */
export function reportLost() {
  if (isLost) return;
  isLost = true;
  listeners.forEach((listener) => listener(false));
  poll(FIRST_DELAY);
}

/** Resolves when the service responds: at once unless the connection is lost. */
export function untilConnected() {
  return isLost ? new Promise((resolve) => waiting.push(resolve)) : Promise.resolve();
}

async function poll(delay) {
  await pause(delay);
  let alive = false;
  try {
    alive = (await fetch("/healthz", { cache: "no-store" })).ok;
  } catch {
    alive = false;
  }
  if (!alive) return poll(Math.min(2 * delay, MAX_DELAY));
  isLost = false;
  // The page loads its state before uploads continue, so that it does not overwrite what they add.
  await Promise.all([...listeners].map((listener) => listener(true)));
  const resumed = waiting;
  waiting = [];
  resumed.forEach((resolve) => resolve());
}
