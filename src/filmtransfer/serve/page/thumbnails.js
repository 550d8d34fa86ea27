// Small pictures of photos. They need the token, so they are fetched, a few at a time and only when
// they are about to be seen, and kept as blobs.

import * as api from "./api.js";
import { back } from "./connection.js";
import { h } from "./dom.js";

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
  } catch (problem) {
    if (problem.status === 0 || problem.status === 429 || problem.status === 503) {
      if (problem.status === 0) await back();
      else await new Promise((later) => setTimeout(later, 1000 * (problem.retry ?? 1)));
      queue.push({ id, resolve });
    } else resolve(null); // removed meanwhile: the tile stays empty until it goes
  }
  running -= 1;
  next();
}

const seen = new IntersectionObserver(
  (entries) => {
    for (const { isIntersecting, target } of entries) {
      if (!isIntersecting) continue;
      seen.unobserve(target);
      url(target.dataset.photo).then((source) => {
        if (source && !target.src) target.src = source;
      });
    }
  },
  { rootMargin: "300px" },
);

/** An <img> that fills itself when it comes into view. */
export function picture(id, alt = "") {
  const image = h("img", { alt, class: "thumb", draggable: "false", "data-photo": id });
  seen.observe(image);
  return image;
}

/** The photo itself, for looking at closely: the small one first, then the real one if the browser can show it. */
export function large(id, alt) {
  const image = picture(id, alt);
  api.photo(id).then(
    async (blob) => {
      const source = URL.createObjectURL(blob);
      const probe = h("img", { src: source });
      await probe.decode().then(
        () => {
          seen.unobserve(image);
          image.src = source;
        },
        () => {}, // a kind of picture that this browser does not know
      );
      setTimeout(() => URL.revokeObjectURL(source), 1000);
    },
    () => {}, // the small one stays
  );
  return image;
}

export function forget(id) {
  urls.get(id)?.then((source) => source && URL.revokeObjectURL(source));
  urls.delete(id);
}
