// Step 3: classify a photo, or what the camera shows.

import { announcePrediction, liveAnnouncer, setSpeech } from "./announce.js";
import * as api from "./api.js";
import { announcement, predictionBox } from "./prediction.js";
import * as camera from "./camera.js";
import { pause } from "./connection.js";
import { byId, h, setText, show } from "./dom.js";
import { dropTarget, picker } from "./files.js";
import { icon } from "./icons.js";
import { attempt, notify, notifyError } from "./notice.js";
import { current, on } from "./state.js";

const FRAME_SIZE = 320; // pixels: enough for the backbone, quick to send
const INTERVAL = 120; // minimum ms between two requests
const parts = {};
let running = false;
let requests = 0; // only the newest request may show its prediction
const announcer = liveAnnouncer();

async function predictLive() {
  while (running) {
    const start = performance.now();
    const blob = document.hidden ? null : await camera.frame(parts.video, FRAME_SIZE);
    if (blob && running) {
      try {
        const prediction = await api.predict(blob);
        if (!running) return;
        parts.box.show(prediction);
        const [best] = prediction.unknown ? [{ class: null, p: 1 }] : prediction.probabilities;
        announcer.update(best.class, best.p, announcement(prediction));
      } catch (error) {
        if (!api.retryable(error)) {
          notifyError(error);
          return stopLive();
        }
        await api.waitToRetry(error);
      }
    }
    await pause(Math.max(20, INTERVAL - (performance.now() - start)));
  }
  return undefined;
}

async function startLive() {
  if (!(await attempt(() => camera.start(parts.video)))) return;
  running = true;
  show(parts.video, true);
  show(parts.photo, false);
  show(parts.placeholder, false);
  parts.box.hide();
  parts.toggle.replaceChildren(icon("stop"), "Stop camera");
  predictLive();
}

function stopLive() {
  if (!running) return;
  running = false;
  announcer.stop();
  camera.stop(parts.video);
  show(parts.video, false);
  show(parts.placeholder, parts.photo.hidden);
  parts.box.hide();
  parts.toggle.replaceChildren(icon("camera"), "Use camera");
}

/** Classifies one photo and shows it with its prediction. */
export async function classify(file) {
  if (!current()) return notify("There is no classifier yet.", "Train first, then try this photo.");
  stopLive();
  requests += 1;
  const request = requests;
  const shown = parts.photo.src;
  if (shown) setTimeout(() => URL.revokeObjectURL(shown), 1000); // it may still be loading
  parts.photo.src = URL.createObjectURL(file);
  parts.photo.alt = file.name ? `The photo ${file.name}` : "The chosen photo";
  show(parts.photo, true);
  show(parts.placeholder, false);
  parts.box.hide();
  return attempt(async () => {
    const prediction = await api.predict(file);
    if (request !== requests || running) return;
    parts.box.show(prediction);
    announcePrediction(announcement(prediction));
  });
}

function draw() {
  const trained = Boolean(current());
  show(parts.hint, !trained);
  show(parts.use, trained);
  if (!trained) stopLive();
  const version = current();
  setText(
    parts.which,
    version ? `Version ${version.number}${version.stage === "first" ? ", the first classifier" : ""}` : "",
  );
}

export function setUpPredict() {
  const box = byId("try-card");
  parts.video = h("video", {
    muted: true,
    playsinline: true,
    class: "camera",
    "aria-label": "Camera image",
    hidden: true,
  });
  parts.video.muted = true;
  parts.photo = h("img", { class: "asked", alt: "", hidden: true });
  // The service may read a format that this browser cannot display.
  parts.photo.addEventListener("error", () => show(parts.photo, false));
  parts.placeholder = h("p", { class: "stage" }, "Drop a photo here, paste one, or use the camera.");
  parts.box = predictionBox();
  parts.toggle = h(
    "button",
    { type: "button", class: "primary", onclick: () => (running ? stopLive() : startLive()) },
    icon("camera"),
    "Use camera",
  );
  const [pick, input] = picker({
    label: [icon("photos"), "Choose photo"],
    multiple: false,
    chosen: ([file]) => file && classify(file),
  });
  input.id = "try-file";
  const speech = h("input", { type: "checkbox", id: "speech", onchange: () => setSpeech(speech.checked) });
  parts.which = h("p", { class: "soft which" });
  parts.hint = h(
    "p",
    { class: "hint" },
    "After training, hold something up to the camera or drop a photo here, and it tells you what it is. It also recognizes when a photo shows none of your classes.",
  );
  parts.use = h(
    "div",
    { class: "stack", hidden: true },
    h("div", { class: "view" }, parts.video, parts.photo, parts.placeholder),
    parts.box.element,
    h("div", { class: "row" }, parts.toggle, pick, input),
    camera.chooser("try-camera", parts.video),
    h("label", { class: "check" }, speech, icon("sound"), "Speak predictions"),
    parts.which,
  );
  box.append(parts.hint, parts.use);
  dropTarget(byId("try"), (transfer) => transfer.files[0] && classify(transfer.files[0]));
  on("versions", draw);
}
