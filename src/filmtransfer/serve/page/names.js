// The names of a version's classes. A version keeps the names of its training and the ids of its classes; a class
// may have been renamed since, and everything on the page shows the name that it has now.

import { className, current, photosOf, state } from "./state.js";

/** The id of the class that the current version was trained on under `name`; none if the version was uploaded. */
const classId = (name) => current()?.class_ids[name];

/** The present name of a class of the current version; a deleted class gives its name up to another one. */
export function nameNow(name) {
  const id = classId(name);
  if (!id) return name;
  const taken = state.classes.some((row) => row.name === name);
  return className(id) || (taken ? `${name} (deleted)` : name);
}

/** A prediction with the present names. */
export const withNamesNow = (prediction) => ({
  ...prediction,
  probabilities: prediction.probabilities.map((row) => ({ ...row, class: nameNow(row.class) })),
});

/** Whether the photos have changed since the current version was trained. */
export function isStale() {
  const version = current();
  if (!version || version.source !== "trained") return false;
  const trained = new Map(Object.entries(version.classes).map(([name, n]) => [nameNow(name), n]));
  const now = state.classes.map((row) => [row.name, photosOf(row.id).length]).filter(([, n]) => n > 0);
  return (
    state.moved ||
    now.length !== trained.size ||
    now.some(([name, n]) => trained.get(name) !== n) ||
    state.photos.some((photo) => Date.parse(photo.created) > Date.parse(version.created))
  );
}
