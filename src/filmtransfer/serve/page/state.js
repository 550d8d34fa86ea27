// The state of the page. Code that changes it calls `changed`; code that displays it registers with `on`.

import * as api from "./api.js";
import { projectId, setProject } from "./scope.js";

/** What belongs to the project that is shown, before it is loaded. */
const emptyProject = () => ({
  classes: [], // {id, name}
  photos: [], // {id, class_id, bytes, …}, oldest first
  versions: [], // newest first; `classes` has the number of photos of each class: {cup: 12}, `class_ids` its id
  trainings: [], // newest first
  training: null, // the one that is displayed: {id, state, message}
  progress: [], // of the training: {step, steps, loss, accuracy, seconds_left}
  published: [], // versions of the training: {step, number, stage}
  assessment: null, // leave-one-out predictions of the current version
  moved: false, // whether a photo was moved to another class after the last training had started
  activeClass: null, // the class that was used last, which gets pasted photos
});

export const state = {
  me: null, // name, quota, backbone
  projects: [], // {id, name, classes, photos, current}, oldest first
  elsewhere: null, // what the other projects use of the quota
  ...emptyProject(),
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
export const shownProject = () => state.projects.find((project) => project.id === projectId()) ?? null;

const USED = ["classes", "photos", "versions", "bytes"];

/** What the shown project uses of the quota. */
export function usedHere() {
  const bytes = [...state.photos, ...state.versions].reduce((sum, item) => sum + item.bytes, 0);
  return {
    classes: state.classes.length,
    photos: state.photos.length,
    versions: state.versions.length,
    bytes,
  };
}

function usedElsewhere() {
  const here = usedHere();
  return Object.fromEntries(USED.map((unit) => [unit, Math.max(0, state.me.used[unit] - here[unit])]));
}

/** Forgets everything about the project that was shown; `load` fetches another one. */
export function clearProject(id = null) {
  setProject(id);
  Object.assign(state, emptyProject());
  changed("project", "classes", "photos", "versions", "trainings", "training", "assessment");
}

/** Shows another project. */
export async function openProject(id) {
  clearProject(id);
  await load();
}

/** Loads everything from the service. If the shown project does not exist any more, shows the oldest one. */
export async function load() {
  state.projects = await api.projects();
  if (!shownProject()) clearProject(state.projects[0].id);
  const [me, classes, photos, versions, trainings] = await Promise.all([
    api.me(),
    api.classes(),
    api.photos(),
    api.versions(),
    api.trainings(),
  ]);
  Object.assign(state, { me, classes, photos, versions, trainings });
  state.elsewhere = usedElsewhere();
  changed("me", "projects", "classes", "photos", "versions", "trainings");
}

export async function loadVersions() {
  state.versions = await api.versions();
  changed("versions");
}
