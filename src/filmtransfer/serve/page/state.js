// What the page knows, in one place. Whoever changes it says what changed; whoever shows it listens.

import * as api from "./api.js";

export const state = {
  me: null, // who, quota, backbone
  classes: [], // {id, name}
  photos: [], // {id, class_id, bytes, …}, oldest first
  versions: [], // newest first
  training: null, // the newest one: {id, state, message}
  points: [], // its progress: {step, steps, loss, accuracy, seconds_left}
  marks: [], // the versions it has made: {step, number, stage, accuracy}
  check: null, // which photos the current version takes for another class
  room: null, // the class that was used last: where a pasted photo goes
};

const listeners = new Map();

export function on(topics, listener) {
  for (const topic of topics.split(" ")) {
    if (!listeners.has(topic)) listeners.set(topic, []);
    listeners.get(topic).push(listener);
  }
}

export function changed(...topics) {
  const called = new Set(topics.flatMap((topic) => listeners.get(topic) ?? []));
  called.forEach((listener) => listener());
}

export const photosOf = (classId) => state.photos.filter((photo) => photo.class_id === classId);
export const className = (classId) => state.classes.find((row) => row.id === classId)?.name ?? "";
export const current = () => state.versions.find((version) => version.current) ?? null;
export const isTraining = () => state.training?.state === "waiting" || state.training?.state === "running";

/** How many photos each class of a version had, by name: {cup: 12}. */
export function countsOf(version) {
  const classes = version?.classes ?? {};
  return Array.isArray(classes) ? Object.fromEntries(classes.map((name) => [name, null])) : classes;
}

/** Whether the photos are no longer those that the current version was trained on. */
export function isStale() {
  const version = current();
  if (!version || version.source !== "trained") return false;
  const counts = countsOf(version);
  const now = state.classes.map((row) => [row.name, photosOf(row.id).length]).filter(([, n]) => n > 0);
  if (now.length !== Object.keys(counts).length) return true;
  return (
    state.moved || now.some(([name, n]) => !(name in counts) || (counts[name] !== null && counts[name] !== n))
  );
}

export async function load() {
  const [me, classes, photos, versions] = await Promise.all([
    api.me(),
    api.classes(),
    api.photos(),
    api.versions(),
  ]);
  Object.assign(state, { me, classes, photos, versions });
  changed("me", "classes", "photos", "versions");
}

export async function loadVersions() {
  state.versions = await api.versions();
  changed("versions");
}
