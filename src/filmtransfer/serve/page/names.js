// The names of a version's classes. A version keeps the names of its training; a class may have been renamed
// since, and everything on the page shows the name that it has now.

import { className, current, photosOf, state } from "./state.js";

/** The class that has all photos of the version's class `name`, unless the version knows it by its own name. */
function classOfPhotos(name) {
  const trained = Object.keys(current()?.classes ?? {});
  const ids = new Set();
  for (const row of state.assessment?.photos ?? []) {
    if (row.truth !== name) continue;
    const photo = state.photos.find((other) => other.id === row.id);
    if (photo) ids.add(photo.class_id);
  }
  const [only] = ids;
  return ids.size === 1 && !trained.includes(className(only)) ? only : null;
}

/** The present name of a class of the current version. */
export function nameNow(name) {
  if (current()?.source !== "trained" || state.classes.some((row) => row.name === name)) return name;
  const id = state.renamed.findLast(({ from }) => from === name)?.id ?? classOfPhotos(name);
  return className(id) || name;
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
