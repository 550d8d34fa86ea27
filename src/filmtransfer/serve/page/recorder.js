// Photos of the camera for a class: hold the button to record, or press it once for one photo.

import { announce } from "./announce.js";
import * as camera from "./camera.js";
import { h, setText } from "./dom.js";
import { count } from "./format.js";
import { icon } from "./icons.js";
import { attempt } from "./notice.js";
import { projectId } from "./scope.js";
import { addPhotos } from "./upload.js";

const INTERVAL = 200; // ms between two photos: five a second
const PHOTO_SIZE = 480; // pixels: more than the image size of the backbones

/** The panel of one class of the shown project; `closed` is called when it is closed. */
export function recorder(row, closed) {
  const project = projectId();
  const video = h("video", {
    muted: true,
    playsinline: true,
    "aria-label": "Camera image",
    class: "camera",
  });
  video.muted = true;
  const hold = h("button", { type: "button", class: "primary wide hold" }, icon("camera"), "Hold to record");
  const done = h("button", { type: "button" }, "Close the camera");
  const status = h(
    "p",
    { class: "soft" },
    "Hold the button or the space bar, and move the object. A short press takes one photo.",
  );
  const panel = h(
    "div",
    { class: "recorder", role: "group", "aria-label": `Camera for ${row.name}` },
    video,
    h("div", { class: "stack" }, hold, status, camera.chooser(`camera-${row.id}`, video), done),
  );
  let timer = null;
  let taken = 0;
  let sent = Promise.resolve();

  async function take() {
    const blob = await camera.frame(video, PHOTO_SIZE);
    if (!blob) return;
    taken += 1;
    setText(status, `${count(taken, "photo")} recorded.`);
    const file = new File([blob], `camera ${taken}.jpg`, { type: blob.type });
    sent = Promise.all([sent, addPhotos(row, [file], { quiet: true, project })]);
  }
  function begin() {
    if (timer !== null) return;
    taken = 0;
    hold.classList.add("recording");
    take();
    timer = setInterval(take, INTERVAL);
  }
  async function end() {
    if (timer === null) return;
    clearInterval(timer);
    timer = null;
    hold.classList.remove("recording");
    await sent;
    if (taken) announce(`${count(taken, "photo")} recorded for ${row.name}.`);
  }
  function close() {
    end();
    camera.stop(video);
    panel.remove();
    closed();
  }

  hold.addEventListener("pointerdown", (event) => {
    if (event.button !== 0) return;
    try {
      hold.setPointerCapture(event.pointerId);
    } catch {
      // the pointer was released already
    }
    begin();
  });
  for (const type of ["pointerup", "pointercancel", "lostpointercapture", "blur"])
    hold.addEventListener(type, end);
  hold.addEventListener("contextmenu", (event) => event.preventDefault()); // a long press on a phone
  hold.addEventListener("keydown", (event) => {
    if (event.key !== " " && event.key !== "Enter") return;
    event.preventDefault();
    begin();
  });
  hold.addEventListener("keyup", end);
  // Screen readers click without a pointer or key: take one photo.
  hold.addEventListener("click", (event) => {
    if (
      event.detail === 0 &&
      timer === null &&
      event.pointerType !== "mouse" &&
      event.pointerType !== "touch"
    ) {
      begin();
      end();
    }
  });
  done.addEventListener("click", close);

  panel.open = async () => {
    const opened = await attempt(() => camera.start(video));
    if (!opened) return close();
    hold.focus();
    announce("The camera is on.");
  };
  panel.close = close;
  return panel;
}
