// Uploads of photos: several at a time, repeated after lost connections and while the service is busy.

import { alert, announce } from "./announce.js";
import * as api from "./api.js";
import { count } from "./format.js";
import { notify } from "./notice.js";
import { changed, className, state } from "./state.js";

const AT_ONCE = 3;
const TRIES = 20;

/** The uploads in progress by class: {done, total}. */
export const uploads = new Map();

async function send(classId, file) {
  for (let tries = 1; ; tries += 1) {
    try {
      return await api.addPhoto(classId, file);
    } catch (error) {
      if (!api.retryable(error) || tries === TRIES) throw error;
      await api.waitToRetry(error);
    }
  }
}

function addToState(photo) {
  if (state.photos.some((other) => other.id === photo.id)) return;
  state.photos.push(photo);
}

function report(classId, added, existing, failed) {
  const name = className(classId);
  const sentences = [];
  if (added) sentences.push(`${count(added, "photo")} added to ${name}.`);
  if (existing) sentences.push(`${count(existing, "photo was", "photos were")} there already.`);
  if (sentences.length) announce(sentences.join(" "));
  if (!failed.length) return;
  const [first] = failed;
  const others = failed.length > 1 ? ` (and ${failed.length - 1} more)` : "";
  notify(
    `${first.file.name || "The photo"}${others} could not be added to ${name}: ${first.error.message}`,
    first.error.hint,
  );
}

/** Adds files to a class. Resolves when all are uploaded or have failed; announces the result unless `quiet`. */
export async function addPhotos(classId, files, { quiet = false } = {}) {
  const list = [...files];
  if (!list.length) return;
  state.activeClass = classId;
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
        const response = await send(classId, file);
        if (response.added) added += 1;
        else existing += 1;
        addToState(response.photo);
        changed("photos");
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
  if (!quiet || failed.length) report(classId, quiet ? 0 : added, quiet ? 0 : existing, failed);
  if (failed.length && !added) alert("No photo was added.");
}
