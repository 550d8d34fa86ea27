// The photos of a class as a grid; moving and removing photos.

import { announce } from "./announce.js";
import * as api from "./api.js";
import { h, keyed } from "./dom.js";
import { attempt } from "./notice.js";
import { changed, className, photosOf, state } from "./state.js";
import { release, thumbnail } from "./thumbnails.js";
import { view } from "./viewer.js";

export const PHOTO_TYPE = "application/x-filmtransfer-photo"; // the id of a photo that is dragged

export function removePhoto(photo) {
  return attempt(async () => {
    await api.removePhoto(photo.id);
    state.photos = state.photos.filter((other) => other.id !== photo.id);
    release(photo.id);
    changed("photos");
    announce(`Photo removed from ${className(photo.class_id)}.`);
  });
}

export function movePhoto(photo, classId) {
  return attempt(async () => {
    const moved = await api.movePhoto(photo.id, classId);
    state.photos = state.photos.filter((other) => other.id !== photo.id);
    // The class may have had the same photo.
    if (!state.photos.some((other) => other.id === moved.id)) state.photos.push(moved);
    state.moved = true;
    changed("photos");
    announce(`Photo moved to ${className(classId)}.`);
  });
}

/** Makes one photo of each class reachable by Tab; the arrow keys reach the others (roving tabindex). */
function setTabStop(list, button) {
  for (const other of list.querySelectorAll("button[tabindex='0']")) other.tabIndex = -1;
  button.tabIndex = 0;
}

function neighbour(list, button, key) {
  const all = [...list.querySelectorAll("button")];
  const at = all.indexOf(button);
  const columns = Math.max(1, all.filter((other) => other.offsetTop === all[0].offsetTop).length);
  const to = {
    ArrowRight: at + 1,
    ArrowLeft: at - 1,
    ArrowDown: at + columns,
    ArrowUp: at - columns,
    Home: 0,
    End: all.length - 1,
  }[key];
  return to === undefined ? null : (all[to] ?? button);
}

function tile(photo, list) {
  const button = h(
    "button",
    { type: "button", class: "tile", tabindex: "-1", draggable: "true" },
    thumbnail(photo.id),
  );
  button.addEventListener("focus", () => setTabStop(list, button));
  button.addEventListener("click", () => {
    const classId = list.dataset.class;
    view({
      photos: () => photosOf(classId),
      at: photo.id,
      back: (id) => list.querySelector(`[data-key="${id}"] button`) ?? fallback(list),
    });
  });
  button.addEventListener("keydown", async (event) => {
    const next = neighbour(list, button, event.key);
    if (next) {
      event.preventDefault();
      next.focus();
    } else if (event.key === "Delete" || event.key === "Backspace") {
      event.preventDefault();
      const item = button.parentElement;
      const after = item.nextElementSibling ?? item.previousElementSibling;
      const now = state.photos.find((other) => other.id === photo.id);
      if (now && (await removePhoto(now)))
        (after?.isConnected ? after.querySelector("button") : fallback(list))?.focus();
    }
  });
  button.addEventListener("dragstart", (event) => {
    event.dataTransfer.setData(PHOTO_TYPE, photo.id);
    event.dataTransfer.effectAllowed = "move";
  });
  return h("li", {}, button);
}

/** The element that gets the focus when a class has no photo left. */
const fallback = (list) =>
  list.querySelector("button") ?? list.closest(".class").querySelector(".add-photos");

/** Updates the grid of a class. */
export function showPhotos(list, classId, name, limit) {
  list.dataset.class = classId;
  const all = photosOf(classId);
  keyed(list, all.slice(0, limit), (photo) => tile(photo, list));
  const buttons = list.querySelectorAll("button");
  buttons.forEach((button, i) =>
    button.setAttribute("aria-label", `Photo ${i + 1} of ${all.length}, ${name}`),
  );
  if (buttons.length && !list.querySelector("button[tabindex='0']")) buttons[0].tabIndex = 0;
}
