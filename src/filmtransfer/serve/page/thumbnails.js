// Thumbnails. They need the token, so they are fetched as blobs, a few at a time and only when they are
// about to be visible.

import * as api from "./api.js";
import { h } from "./dom.js";
import { on } from "./state.js";

const AT_ONCE = 6;
const urls = new Map(); // photo id → promise of a blob URL
const queue = [];
let running = 0;

function url(id) {
  if (!urls.has(id)) urls.set(id, new Promise((resolve) => queue.push({ id, resolve })));
  next();
  return urls.get(id);
}

async function next() {
  if (running >= AT_ONCE || !queue.length) return;
  running += 1;
  const { id, resolve } = queue.shift();
  try {
    resolve(URL.createObjectURL(await api.thumbnail(id)));
  } catch (error) {
    if (api.retryable(error)) {
      await api.waitToRetry(error);
      queue.push({ id, resolve });
    } else resolve(null); // removed in the meantime: the tile stays empty until it is removed
  }
  running -= 1;
  next();
}

const visible = new IntersectionObserver(
  (entries) => {
    for (const { isIntersecting, target } of entries) {
      if (!isIntersecting) continue;
      visible.unobserve(target);
      url(target.dataset.photo).then((source) => {
        if (source && !target.src) target.src = source;
      });
    }
  },
  { rootMargin: "300px" },
);

/** An <img> that loads the thumbnail when it becomes visible. */
export function thumbnail(id, alt = "") {
  const image = h("img", { alt, class: "thumb", draggable: "false", "data-photo": id });
  visible.observe(image);
  return image;
}

/** An <img> of the photo itself: first the thumbnail, then the original if the browser can display it. */
export function original(id, alt) {
  const image = thumbnail(id, alt);
  api.photo(id).then(
    async (blob) => {
      const source = URL.createObjectURL(blob);
      const probe = h("img", { src: source });
      await probe.decode().then(
        () => {
          visible.unobserve(image);
          image.src = source;
        },
        () => {}, // a format that this browser cannot display
      );
      setTimeout(() => URL.revokeObjectURL(source), 1000);
    },
    () => {}, // the thumbnail stays
  );
  return image;
}

/** Releases the thumbnail of a photo that was removed. */
export function release(id) {
  urls.get(id)?.then((source) => source && setTimeout(() => URL.revokeObjectURL(source), 1000)); // it may be loading
  urls.delete(id);
}

on("project", () => {
  queue.splice(0).forEach(({ resolve }) => resolve(null));
  [...urls.keys()].forEach(release);
});
