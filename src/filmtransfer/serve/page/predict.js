// Step 3: hold something up to the camera, or give it a photo, and it says what it is.

import { answer as sayAnswer, live, setAloud } from "./announce.js";
import * as api from "./api.js";
import { answerBox, words } from "./bars.js";
import * as camera from "./camera.js";
import { back } from "./connection.js";
import { byId, h, say, show } from "./dom.js";
import { dropTarget, picker } from "./files.js";
import { icon } from "./icons.js";
import { attempt, notify, notifyError } from "./notice.js";
import { current, on } from "./state.js";

const SIDE = 320; // pixels of a live frame: enough for the backbone, quick to send
const EVERY = 120; // ms between two questions, at least
const parts = {};
let running = false;
let turn = 0; // photos asked about: only the newest may show its answer
const voice = live();
const pause = (ms) => new Promise((resolve) => setTimeout(resolve, ms));

async function askLive() {
  while (running) {
    const began = performance.now();
    const blob = document.hidden ? null : await camera.frame(parts.video, SIDE);
    if (blob && running) {
      try {
        const answer = await api.predict(blob);
        if (!running) return;
        parts.box.show(answer);
        const best = answer.probabilities[0];
        voice.hear(answer.unknown ? null : best.class, answer.unknown ? 1 : best.p, words(answer));
      } catch (problem) {
        if (problem.status === 0) await back();
        else if (problem.status === 429 || problem.status === 503) await pause(1000 * (problem.retry ?? 1));
        else {
          notifyError(problem);
          return stopLive();
        }
      }
    }
    await pause(Math.max(20, EVERY - (performance.now() - began)));
  }
  return undefined;
}

async function startLive() {
  if (!(await attempt(() => camera.start(parts.video)))) return;
  running = true;
  show(parts.video, true);
  show(parts.photo, false);
  show(parts.waiting, false);
  parts.box.hide();
  parts.toggle.replaceChildren(icon("stop"), "Stop camera");
  askLive();
}

function stopLive() {
  if (!running) return;
  running = false;
  voice.stop();
  camera.stop(parts.video);
  show(parts.video, false);
  show(parts.waiting, parts.photo.hidden);
  parts.box.hide();
  parts.toggle.replaceChildren(icon("camera"), "Use camera");
}

/** Asks about one photo and shows it with its answer. */
export async function ask(file) {
  if (!current()) return notify("There is nothing to try yet.", "Train first, then ask about this photo.");
  stopLive();
  turn += 1;
  const mine = turn;
  if (parts.photo.src) URL.revokeObjectURL(parts.photo.src);
  parts.photo.src = URL.createObjectURL(file);
  parts.photo.alt = file.name ? `The photo ${file.name}` : "The photo you gave";
  show(parts.photo, true);
  show(parts.waiting, false);
  parts.box.hide();
  return attempt(async () => {
    const answer = await api.predict(file);
    if (mine !== turn || running) return;
    parts.box.show(answer);
    sayAnswer(words(answer));
  });
}

function draw() {
  const ready = Boolean(current());
  show(parts.teach, !ready);
  show(parts.use, ready);
  if (!ready) stopLive();
  const version = current();
  say(
    parts.which,
    version ? `Version ${version.number}${version.stage === "first" ? ", the first answer" : ""}` : "",
  );
}

export function setUpPredict() {
  const box = byId("try-card");
  parts.video = h("video", {
    muted: true,
    playsinline: true,
    class: "camera",
    "aria-label": "What the camera sees",
    hidden: true,
  });
  parts.video.muted = true;
  parts.photo = h("img", { class: "asked", alt: "", hidden: true });
  // A kind of picture that this browser cannot show may still be read by the service.
  parts.photo.addEventListener("error", () => show(parts.photo, false));
  parts.waiting = h("p", { class: "stage" }, "Drop a photo here, paste one, or use the camera.");
  parts.box = answerBox();
  parts.toggle = h(
    "button",
    { type: "button", class: "primary", onclick: () => (running ? stopLive() : startLive()) },
    icon("camera"),
    "Use camera",
  );
  const [pick, input] = picker({
    label: [icon("photos"), "Choose photo"],
    multiple: false,
    chosen: ([file]) => file && ask(file),
  });
  input.id = "try-file";
  const aloud = h("input", { type: "checkbox", id: "aloud", onchange: () => setAloud(aloud.checked) });
  parts.which = h("p", { class: "soft which" });
  parts.teach = h(
    "p",
    { class: "teach" },
    "Once it has trained, hold something up to the camera or drop a photo here, and it tells you what it is. It also says when it is none of these.",
  );
  parts.use = h(
    "div",
    { class: "stack", hidden: true },
    h("div", { class: "view" }, parts.video, parts.photo, parts.waiting),
    parts.box.element,
    h("div", { class: "row" }, parts.toggle, pick, input),
    camera.chooser("try-camera", parts.video),
    h("label", { class: "check" }, aloud, icon("sound"), "Say answers aloud"),
    parts.which,
  );
  box.append(parts.teach, parts.use);
  dropTarget(byId("try"), (transfer) => transfer.files[0] && ask(transfer.files[0]));
  on("versions", draw);
}
