// The camera: one media stream for the page, shared by all video elements and stopped when none uses it.

import { h, show } from "./dom.js";

const KEY = "filmtransfer.camera";
let stream = null;
let opening = null;
const videos = new Set(); // the elements that show it

const MESSAGES = {
  NotAllowedError: [
    "This page may not use the camera.",
    "Allow it for this page in the browser's address bar, then try again.",
  ],
  NotFoundError: ["No camera was found.", "Connect one, or use photos instead."],
  NotReadableError: ["Another program uses the camera.", "Close that program, then try again."],
  Insecure: [
    "The browser does not allow the camera on this page.",
    "It is allowed only on this machine (127.0.0.1) or over https.",
  ],
};

function cameraError(error) {
  const [message, hint] = MESSAGES[error.name] ?? [
    "The camera could not be opened.",
    "Try another camera, or use photos instead.",
  ];
  return Object.assign(new Error(message), { hint, status: -1 });
}

async function openStream() {
  if (!navigator.mediaDevices) throw cameraError({ name: "Insecure" });
  const chosen = sessionStorage.getItem(KEY);
  const video = {
    width: { ideal: 640 },
    height: { ideal: 480 },
    ...(chosen ? { deviceId: { ideal: chosen } } : { facingMode: "environment" }),
  };
  try {
    return await navigator.mediaDevices.getUserMedia({ video, audio: false });
  } catch (error) {
    throw cameraError(error);
  }
}

/** Starts showing the camera in a video element. */
export async function start(video) {
  videos.add(video);
  try {
    opening ??= openStream();
    stream = await opening;
  } catch (error) {
    videos.delete(video);
    opening = null;
    throw error;
  }
  if (!videos.has(video)) return release();
  video.srcObject = stream;
  // A camera that faces the user is shown mirrored; the recorded photos are not.
  video.classList.toggle("mirror", stream.getVideoTracks()[0].getSettings().facingMode !== "environment");
  await video.play().catch(() => {}); // stopped before it started
}

export function stop(video) {
  videos.delete(video);
  video.srcObject = null;
  release();
}

function release() {
  if (videos.size || !stream) return;
  stream.getTracks().forEach((track) => track.stop());
  stream = opening = null;
}

/** A select of the cameras if there are several, filled once the camera is on: before that names are hidden. */
export function chooser(id, video) {
  const select = h("select", { id });
  const box = h("p", { class: "field", hidden: true }, h("label", { for: id }, "Camera"), select);
  async function fill() {
    const cameras = (await navigator.mediaDevices.enumerateDevices()).filter(
      (device) => device.kind === "videoinput",
    );
    const now = stream?.getVideoTracks()[0]?.getSettings().deviceId;
    select.replaceChildren(
      ...cameras.map((camera, i) =>
        h(
          "option",
          { value: camera.deviceId, selected: camera.deviceId === now },
          camera.label || `Camera ${i + 1}`,
        ),
      ),
    );
    show(box, cameras.length > 1);
  }
  select.addEventListener("change", async () => {
    sessionStorage.setItem(KEY, select.value);
    const all = [...videos];
    stream?.getTracks().forEach((track) => track.stop());
    opening = null;
    await Promise.all(all.map(start));
  });
  video.addEventListener("playing", fill);
  return box;
}

/** The central square of the current camera image as a JPEG. */
export function frame(video, side) {
  const short = Math.min(video.videoWidth, video.videoHeight);
  if (!short) return Promise.resolve(null);
  const canvas = h("canvas", {});
  canvas.width = canvas.height = Math.min(side, short);
  const [x, y] = [(video.videoWidth - short) / 2, (video.videoHeight - short) / 2];
  canvas.getContext("2d").drawImage(video, x, y, short, short, 0, 0, canvas.width, canvas.height);
  return new Promise((resolve) => canvas.toBlob(resolve, "image/jpeg", 0.9));
}
