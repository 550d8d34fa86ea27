// Uploads of photos: several at a time, repeated after lost connections and while the service is busy. They
// continue when another project is shown.

import { alert, announce } from "./announce.js";
import * as api from "./api.js";
import { byId } from "./dom.js";
import { count } from "./format.js";
import { endNotice, notify } from "./notice.js";
import { projectId } from "./scope.js";
import { changed, state } from "./state.js";

const AT_ONCE = 3;
const TRIES = 20;

/** The uploads in progress by class: {done, total}. */
export const uploads = new Map();
/** The element after which messages about the photos of a class stand. */
const place = (classId) => byId(`add-to-${classId}`);

async function send(project, classId, file) {
  for (let tries = 1; ; tries += 1) {
    try {
      return await api.addPhoto(project, classId, file);
    } catch (error) {
      if (!api.retryable(error) || tries === TRIES) throw error;
      await api.waitToRetry(error);
    }
  }
}

function addToState(project, photo) {
  if (project !== projectId() || state.photos.some((other) => other.id === photo.id)) return;
  state.photos.push(photo);
  changed("photos");
}

function report(classId, name, added, existing, failed) {
  const sentences = [];
  if (added) sentences.push(`${count(added, "photo")} added to ${name}.`);
  if (existing) sentences.push(`${count(existing, "photo was", "photos were")} there already.`);
  if (sentences.length) announce(sentences.join(" "));
  if (!failed.length) return;
  const [first] = failed;
  const names = failed.slice(1, 4).map(({ file }) => file.name || "a photo");
  const more = failed.length > 4 ? `, ${failed.length - 4} more` : "";
  const others = names.length ? ` (and ${names.join(", ")}${more})` : "";
  const stored = state.photos.length;
  notify(
    `${first.file.name || "The photo"}${others} could not be added to ${name}: ${first.error.message}`,
    first.error.hint,
    // A full quota is no longer full once photos are removed.
    { after: place(classId), ends: () => first.error.status === 507 && state.photos.length < stored },
  );
}

/**
 * Adds files to a class of a project, by default the one that is shown. Resolves when all are uploaded or have
 * failed; announces the result unless `quiet`.
 */
export async function addPhotos({ id: classId, name }, files, { quiet = false, project = projectId() } = {}) {
  const list = [...files];
  if (!list.length) return;
  if (project === projectId()) state.activeClass = classId;
  endNotice(place(classId));
  const batch = uploads.get(classId) ?? { done: 0, total: 0 };
  batch.total += list.length;
  uploads.set(classId, batch);
  changed("uploads");
  let added = 0;
  let existing = 0;
  const failed = [];
  async function work() {
    for (let file = list.shift(); file; file = list.shift()) {
      try {
        const response = await send(project, classId, file);
        if (response.added) added += 1;
        else existing += 1;
        addToState(project, response.photo);
      } catch (error) {
        failed.push({ file, error });
        if (error.status === 401) list.length = 0;
        if (error.status === 507) list.length = 0; // full: the rest would fail the same way
      }
      batch.done += 1;
      changed("uploads");
    }
  }
  await Promise.all(Array.from({ length: AT_ONCE }, work));
  if (batch.done >= batch.total || !list.length) uploads.delete(classId);
  changed("uploads", "photos");
  if (failed.some(({ error }) => error.status === 401)) return;
  if (!quiet || failed.length) report(classId, name, quiet ? 0 : added, quiet ? 0 : existing, failed);
  if (failed.length && !added) alert("No photo was added.");
}
