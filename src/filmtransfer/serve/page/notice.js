// Messages about what went wrong: what is wrong, and what to do next. A message stands beside what it is about,
// and only without such a place at the edge of the window. It stays until it is dismissed or no longer true.

import { alert } from "./announce.js";
import { byId, focusOn, h } from "./dom.js";
import { icon } from "./icons.js";
import { load, on } from "./state.js";

const notices = new Map(); // the element after which it stands (null: none) → {box, ends, remove}
let number = 0;

/** The last element of an open dialog, which is above everything else. */
const inDialog = () =>
  [...document.querySelectorAll("dialog[open]")].at(-1)?.querySelector(".row.end")?.previousElementSibling ??
  null;

function makeBox(message, hint, place, focused) {
  number += 1;
  const close = h(
    "button",
    { type: "button", class: "quiet square", "aria-label": "Dismiss the message" },
    icon("close"),
  );
  close.addEventListener("click", () => {
    endNotice(place);
    focusOn(focused?.isConnected ? focused : byId("main"));
  });
  return h(
    place ? "div" : "section",
    { class: `notice ${place ? "inline" : "floating"}`, role: place && "group", "aria-label": "Message" },
    h(
      "div",
      { class: "text", id: `notice-${number}` },
      h("p", { class: "notice-message" }, message),
      hint && h("p", { class: "notice-hint" }, hint),
    ),
    close,
  );
}

/** Marks a field as the cause of a message until its text changes; returns how to undo that. */
function markField(field, box, place) {
  const described = field.getAttribute("aria-describedby");
  const text = box.querySelector(".text").id;
  const end = () => endNotice(place);
  field.setAttribute("aria-invalid", "true");
  field.setAttribute("aria-describedby", [described, text].filter(Boolean).join(" "));
  field.addEventListener("input", end, { once: true });
  return () => {
    field.removeEventListener("input", end);
    field.removeAttribute("aria-invalid");
    if (described) field.setAttribute("aria-describedby", described);
    else field.removeAttribute("aria-describedby");
  };
}

/**
 * Shows a message after the element `after`; it replaces the one that was there. `field` is the field that it
 * is about, and `ends` tells whether the message is no longer true.
 */
export function notify(message, hint = "", { after = null, field = null, ends = () => false } = {}) {
  const place = after?.isConnected ? after : inDialog();
  endNotice(place);
  const box = makeBox(message, hint, place, document.activeElement);
  if (place) place.after(box);
  else document.body.append(box);
  const unmark = field ? markField(field, box, place) : () => {};
  notices.set(place, {
    ends,
    remove: () => {
      box.remove();
      unmark();
    },
  });
  keepClear();
  alert(`${message} ${hint}`.trim());
}

/** Shows the message of an error; `about` says what failed. */
export function notifyError(error, { about, ...where } = {}) {
  if (error?.name === "AbortError" || [0, 401].includes(error?.status)) return; // these are shown elsewhere
  if (error?.status === undefined) console.error(error);
  const message = error?.message ?? "Something went wrong.";
  const hint = error?.hint ?? "Reload the page and try again.";
  notify(about ? `${about}: ${message}` : message, hint, where);
}

/** Removes the message after an element. */
export function endNotice(place) {
  notices.get(place)?.remove();
  notices.delete(place);
}

export function clearNotices() {
  [...notices.keys()].forEach(endNotice);
}

/** Runs an action of the user and shows its error; returns whether it succeeded. */
export async function attempt(work, where = {}) {
  endNotice(where.after ?? null);
  try {
    await work();
    return true;
  } catch (error) {
    notifyError(error, where);
    if (error.status === 404 || error.status === 409) load().catch(() => {}); // changed elsewhere: load again
    return false;
  }
}

/** Moves the message at the lower edge to the upper one if it would cover the element that has the focus. */
function keepClear() {
  const box = document.querySelector(".notice.floating");
  const focused = document.activeElement;
  if (!box || box.contains(focused)) return; // it must not move away from a pointer that is pressed
  box.classList.remove("at-top");
  const [a, b] = [box, focused].map((element) => element.getBoundingClientRect());
  const covered = b.top < a.bottom && b.bottom > a.top && b.left < a.right && b.right > a.left;
  const control = b.height < innerHeight / 2; // not the whole page
  box.classList.toggle("at-top", covered && control);
}

export function setUpNotices() {
  document.addEventListener("focusin", keepClear);
  on("project", clearNotices);
  on("classes photos versions training assessment", () => {
    for (const [place, { ends }] of [...notices]) if (ends() || place?.isConnected === false) endNotice(place);
  });
}
