// The state of the page. Code that changes it calls `changed`; code that displays it registers with `on`.

import * as api from "./api.js";

export const state = {
  me: null, // name, quota, backbone
  classes: [], // {id, name}
  photos: [], // {id, class_id, bytes, …}, oldest first
  versions: [], // newest first; `classes` has the number of photos of each class: {cup: 12}
  training: null, // the newest: {id, state, message}
  progress: [], // of the training: {step, steps, loss, accuracy, seconds_left}
  published: [], // versions of the training: {step, number, stage, accuracy}
  assessment: null, // leave-one-out predictions of the current version
  moved: false, // whether a photo was moved to another class after the last training had started
  activeClass: null, // the class that was used last, which gets pasted photos
};

const listeners = new Map();

/** Calls `listener` whenever one of the topics has changed. */
export function on(topics, listener) {
  for (const topic of topics.split(" ")) {
    if (!listeners.has(topic)) listeners.set(topic, []);
    listeners.get(topic).push(listener);
  }
}

/** Calls the listeners of the topics, each once. */
export function changed(...topics) {
  const called = new Set(topics.flatMap((topic) => listeners.get(topic) ?? []));
  called.forEach((listener) => listener());
}

export const photosOf = (classId) => state.photos.filter((photo) => photo.class_id === classId);
export const className = (classId) => state.classes.find((row) => row.id === classId)?.name ?? "";
export const current = () => state.versions.find((version) => version.current) ?? null;
export const isTraining = () => state.training?.state === "waiting" || state.training?.state === "running";

/** Whether the photos have changed since the current version was trained. */
export function isStale() {
  const version = current();
  if (!version || version.source !== "trained") return false;
  const now = state.classes.map((row) => [row.name, photosOf(row.id).length]).filter(([, n]) => n > 0);
  return (
    state.moved ||
    now.length !== Object.keys(version.classes).length ||
    now.some(([name, n]) => version.classes[name] !== n) ||
    state.photos.some((photo) => Date.parse(photo.created) > Date.parse(version.created))
  );
}

/** Loads everything from the service. */
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
