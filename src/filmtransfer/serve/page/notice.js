// Error messages, which stay until they are dismissed: what is wrong, and what to do next.

import { alert } from "./announce.js";
import { byId, focusOn, h, setText, show } from "./dom.js";
import { icon } from "./icons.js";
import { load } from "./state.js";

let focusedBefore = null; // the element that had the focus when the message appeared

/** Shows a message; it replaces the previous one. */
export function notify(message, hint = "") {
  focusedBefore = document.activeElement;
  const bar = byId("notice");
  setText(byId("notice-message"), message);
  setText(byId("notice-hint"), hint);
  show(bar, true);
  alert(`${message} ${hint}`.trim());
}

/** Shows the message of an error. */
export function notifyError(error) {
  if (error?.name === "AbortError" || [0, 401].includes(error?.status)) return; // these are shown elsewhere
  if (error?.status === undefined) console.error(error);
  notify(error?.message ?? "Something went wrong.", error?.hint ?? "Reload the page and try again.");
}

export function clearNotice() {
  show(byId("notice"), false);
}

/** Runs an action of the user and shows its error; returns whether it succeeded. */
export async function attempt(work) {
  try {
    await work();
    return true;
  } catch (error) {
    notifyError(error);
    if (error.status === 404 || error.status === 409) load().catch(() => {}); // changed elsewhere: load again
    return false;
  }
}

export function setUpNotice() {
  const close = h(
    "button",
    { type: "button", class: "quiet square", "aria-label": "Dismiss the message" },
    icon("close"),
  );
  close.addEventListener("click", () => {
    clearNotice();
    focusOn(focusedBefore?.isConnected ? focusedBefore : byId("main"));
  });
  byId("notice").append(close);
}
