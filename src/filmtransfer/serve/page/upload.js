// Photos on their way to the service: several at once, in order, through lost connections and full queues.

import { alarm, announce } from "./announce.js";
import * as api from "./api.js";
import { back } from "./connection.js";
import { count } from "./format.js";
import { notify } from "./notice.js";
import { changed, className, state } from "./state.js";

const AT_ONCE = 3;
const TRIES = 20;
const pause = (seconds) => new Promise((resolve) => setTimeout(resolve, 1000 * seconds));

/** What is on its way to a class: {done, total}, or undefined. */
export const uploads = new Map();

async function send(classId, file) {
  for (let tries = 1; ; tries += 1) {
    try {
      return await api.addPhoto(classId, file);
    } catch (problem) {
      const later = problem.status === 0 || problem.status === 429 || problem.status === 503;
      if (!later || tries === TRIES) throw problem;
      if (problem.status === 0) await back();
      else await pause(problem.retry ?? 1);
    }
  }
}

function keep(photo) {
  if (state.photos.some((other) => other.id === photo.id)) return;
  state.photos.push(photo);
}

function report(classId, added, there, failed) {
  const name = className(classId);
  const words = [];
  if (added) words.push(`${count(added, "photo")} added to ${name}.`);
  if (there) words.push(`${count(there, "photo was", "photos were")} there already.`);
  if (words.length) announce(words.join(" "));
  if (!failed.length) return;
  const [first] = failed;
  const others = failed.length > 1 ? ` (and ${failed.length - 1} more)` : "";
  notify(
    `${first.file.name || "The photo"}${others} could not be added to ${name}: ${first.problem.message}`,
    first.problem.hint,
  );
}

/** Adds files to a class. Resolves when all have arrived or failed; says how it went unless `quiet`. */
export async function addPhotos(classId, files, { quiet = false } = {}) {
  const list = [...files];
  if (!list.length) return;
  state.room = classId;
  const batch = uploads.get(classId) ?? { done: 0, total: 0 };
  batch.total += list.length;
  uploads.set(classId, batch);
  changed("uploads");
  let added = 0;
  let there = 0;
  const failed = [];
  async function work() {
    for (let file = list.shift(); file; file = list.shift()) {
      try {
        const answer = await send(classId, file);
        if (answer.added) added += 1;
        else there += 1;
        keep(answer.photo);
        changed("photos");
      } catch (problem) {
        failed.push({ file, problem });
        if (problem.status === 401) list.length = 0;
        if (problem.status === 507) list.length = 0; // full: the rest would fail the same way
      }
      batch.done += 1;
      changed("uploads");
    }
  }
  await Promise.all(Array.from({ length: AT_ONCE }, work));
  if (batch.done >= batch.total || !list.length) uploads.delete(classId);
  changed("uploads", "photos");
  if (failed.some(({ problem }) => problem.status === 401)) return;
  if (!quiet || failed.length) report(classId, quiet ? 0 : added, quiet ? 0 : there, failed);
  if (failed.length && !added) alarm("No photo was added.");
}
