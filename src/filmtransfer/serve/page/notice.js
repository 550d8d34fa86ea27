// Messages that stay until they are read: what is wrong, and what to do next.

import { alarm } from "./announce.js";
import { byId, focusOn, h, say, show } from "./dom.js";
import { icon } from "./icons.js";
import { load } from "./state.js";

let before = null; // where the focus was when the message came

/** Shows one message; a newer one takes its place. */
export function notify(message, hint = "") {
  before = document.activeElement;
  const bar = byId("notice");
  say(byId("notice-message"), message);
  say(byId("notice-hint"), hint);
  show(bar, true);
  alarm(`${message} ${hint}`.trim());
}

export function notifyError(problem) {
  if (problem?.name === "AbortError" || problem?.status === 401 || problem?.status === 0) return; // these have their own places
  if (problem?.status === undefined) console.error(problem);
  notify(problem?.message ?? "Something went wrong.", problem?.hint ?? "Reload the page and try again.");
}

export function clearNotice() {
  show(byId("notice"), false);
}

/** Runs something a person asked for; if it fails, says so. True when it went well. */
export async function attempt(work) {
  try {
    await work();
    return true;
  } catch (problem) {
    notifyError(problem);
    if (problem.status === 404 || problem.status === 409) load().catch(() => {}); // changed from elsewhere: look again
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
    focusOn(before?.isConnected ? before : byId("main"));
  });
  byId("notice").append(close);
}
