// Step 3: classify a photo, or what the camera shows. An answer belongs to a version: when another version is
// in use, the photo is classified again.

import { announcePrediction, liveAnnouncer, setSpeech } from "./announce.js";
import * as api from "./api.js";
import { announcement, predictionBox } from "./prediction.js";
import * as camera from "./camera.js";
import { pause } from "./connection.js";
import { byId, h, setText, show } from "./dom.js";
import { dropTarget, picker } from "./files.js";
import { icon } from "./icons.js";
import { withNamesNow } from "./names.js";
import { attempt, endNotice, notify, notifyError } from "./notice.js";
import { onPointer, touch } from "./pointer.js";
import { current, on } from "./state.js";

const FRAME_SIZE = 320; // pixels: enough for the backbone, quick to send
const INTERVAL = 120; // minimum ms between two requests
const parts = {};
const announcer = liveAnnouncer();
const nothing = { file: null, prediction: null, version: null };
let running = false;
let answered = nothing; // the photo that is shown, its prediction, and the version that made it
let asking = null; // the photo that is being classified; only the newest request may show its prediction

const label = (file) => file.name || "The photo";
const number = () => current()?.number ?? null;

async function predictLive() {
  while (running) {
    const start = performance.now();
    const blob = document.hidden ? null : await camera.frame(parts.video, FRAME_SIZE);
    if (blob && running) {
      try {
        const version = number();
        const prediction = withNamesNow(await api.predict(blob, version));
        if (!running) return;
        if (version === number()) {
          parts.box.show(prediction);
          const [best] = prediction.unknown ? [{ class: null, p: 1 }] : prediction.probabilities;
          announcer.update(best.class, best.p, announcement(prediction));
        }
      } catch (error) {
        if (!api.retryable(error)) {
          notifyError(error, { after: parts.view });
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
  if (!(await attempt(() => camera.start(parts.video), { after: parts.view }))) return;
  running = true;
  forget();
  show(parts.video, true);
  show(parts.placeholder, false);
  parts.toggle.replaceChildren(icon("stop"), "Stop camera");
  predictLive();
}

function stopLive() {
  if (!running) return;
  running = false;
  announcer.stop();
  camera.stop(parts.video);
  show(parts.video, false);
  show(parts.placeholder, true);
  parts.box.hide();
  parts.toggle.replaceChildren(icon("camera"), "Use camera");
}

/** Removes the photo and its answer. */
function forget() {
  const source = parts.photo.src;
  if (source) setTimeout(() => URL.revokeObjectURL(source), 1000); // it may still be loading
  parts.photo.removeAttribute("src");
  answered = nothing;
  asking = null;
  show(parts.photo, false);
  show(parts.placeholder, !running);
  setPlaceholder();
  parts.box.hide();
  setText(parts.status, "");
}

function showPhoto(file) {
  if (answered.file === file) return;
  forget();
  parts.photo.src = URL.createObjectURL(file);
  parts.photo.alt = file.name ? `The photo ${file.name}` : "The chosen photo";
  show(parts.photo, true);
  show(parts.placeholder, false);
}

/** Asks the current version about a photo; the photo that is shown stays until there is an answer. */
async function ask(file) {
  const version = number();
  const request = { file };
  asking = request;
  setText(parts.status, `Classifying ${file.name || "the photo"} with version ${version}…`);
  await attempt(
    async () => {
      const prediction = await api.predict(file, version).catch((error) => {
        if (asking === request) throw error;
      });
      if (asking !== request) return;
      stopLive();
      showPhoto(file);
      answered = { file, prediction, version };
      parts.box.show(withNamesNow(prediction));
      announcePrediction(announcement(withNamesNow(prediction)));
    },
    { after: parts.view, about: `${label(file)} could not be classified` },
  );
  if (asking !== null && asking !== request) return;
  asking = null;
  setText(parts.status, "");
}

/** Classifies one photo and shows it with its prediction. */
export function classify(file) {
  endNotice(parts.view);
  if (current()) return ask(file);
  return notify("There is no classifier yet.", "Train first, then try this photo.", {
    after: parts.hint,
    ends: () => current() !== null,
  });
}

function draw() {
  const version = current();
  show(parts.hint, !version);
  show(parts.use, Boolean(version));
  setText(
    parts.which,
    version ? `Version ${version.number}${version.stage === "first" ? ", the first classifier" : ""}` : "",
  );
}

/** Drops the answer of another version than the current one, and asks the current one. */
function onVersions() {
  draw();
  const version = current();
  if (!version) {
    stopLive();
    forget();
  } else if (version.number !== parts.version) {
    parts.box.hide();
    endNotice(parts.view);
    const file = asking?.file ?? answered.file;
    if (file) ask(file);
  }
  parts.version = version?.number ?? null;
}

function redraw() {
  if (answered.prediction && answered.version === number() && !running)
    parts.box.show(withNamesNow(answered.prediction));
}

const setPlaceholder = () =>
  setText(
    parts.placeholder,
    touch.matches
      ? "Choose a photo, or use the camera."
      : "Drop a photo here, paste one, or use the camera.",
  );

function buildControls() {
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
  return [
    h("div", { class: "row" }, parts.toggle, pick, input),
    camera.chooser("try-camera", parts.video),
    h("label", { class: "check" }, speech, icon("sound"), "Speak predictions"),
  ];
}

function build() {
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
  parts.photo.addEventListener("error", () => {
    show(parts.photo, false);
    show(parts.placeholder, true);
    setText(parts.placeholder, "This browser cannot display the photo; the service could read it.");
  });
  parts.placeholder = h("p", { class: "stage" });
  parts.view = h("div", { class: "view" }, parts.video, parts.photo, parts.placeholder);
  parts.status = h("p", { class: "soft working" });
  parts.box = predictionBox();
  parts.which = h("p", { class: "soft which" });
  parts.hint = h("p", { class: "hint" });
  parts.use = h(
    "div",
    { class: "stack", hidden: true },
    parts.view,
    parts.status,
    parts.box.element,
    ...buildControls(),
    parts.which,
  );
  byId("try-card").append(parts.hint, parts.use);
}

export function setUpPredict() {
  build();
  onPointer(() => {
    const how = touch.matches ? "choose a photo" : "drop a photo here";
    setText(
      parts.hint,
      `After training, hold something up to the camera or ${how}, and it tells you what it is. It also recognizes when a photo shows none of your classes.`,
    );
    if (!answered.file) setPlaceholder();
  });
  dropTarget(byId("try"), (transfer) => transfer.files[0] && classify(transfer.files[0]));
  on("versions", onVersions);
  on("classes photos assessment", redraw);
  on("project", () => {
    stopLive();
    forget();
    parts.version = null;
  });
}
