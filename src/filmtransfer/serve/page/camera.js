// The camera: one stream for the whole page, shared by whoever shows it and stopped when nobody does.

import { h, show } from "./dom.js";

const KEY = "filmtransfer.camera";
let stream = null;
let opening = null;
const users = new Set(); // the video elements that show it

const WORDS = {
  NotAllowedError: [
    "The camera is not allowed.",
    "Allow it for this page in the browser's address bar, then try again.",
  ],
  NotFoundError: ["No camera was found.", "Connect one, or use photos instead."],
  NotReadableError: [
    "The camera is in use elsewhere.",
    "Close the other program that uses it, then try again.",
  ],
  Insecure: [
    "The browser gives no camera to this page.",
    "It does so only on this machine (127.0.0.1) or over https.",
  ],
};

function plain(problem) {
  const [message, hint] = WORDS[problem.name] ?? [
    "The camera could not be opened.",
    "Try another camera, or use photos instead.",
  ];
  return Object.assign(new Error(message), { hint, status: -1 });
}

async function openStream() {
  if (!navigator.mediaDevices) throw plain({ name: "Insecure" });
  const chosen = sessionStorage.getItem(KEY);
  const video = {
    width: { ideal: 640 },
    height: { ideal: 480 },
    ...(chosen ? { deviceId: { ideal: chosen } } : { facingMode: "environment" }),
  };
  try {
    return await navigator.mediaDevices.getUserMedia({ video, audio: false });
  } catch (problem) {
    throw plain(problem);
  }
}

/** Starts showing the camera in a video element. */
export async function start(video) {
  users.add(video);
  try {
    opening ??= openStream();
    stream = await opening;
  } catch (problem) {
    users.delete(video);
    opening = null;
    throw problem;
  }
  if (!users.has(video)) return release();
  video.srcObject = stream;
  // A camera that looks at the person is shown as a mirror; what it takes is not turned.
  video.classList.toggle("mirror", stream.getVideoTracks()[0].getSettings().facingMode !== "environment");
  await video.play().catch(() => {}); // stopped again before it began
}

export function stop(video) {
  users.delete(video);
  video.srcObject = null;
  release();
}

function release() {
  if (users.size || !stream) return;
  stream.getTracks().forEach((track) => track.stop());
  stream = opening = null;
}

/** Other cameras, if there are any, as a labelled select. Filled once the camera is on: names are secret before. */
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
    const all = [...users];
    stream?.getTracks().forEach((track) => track.stop());
    opening = null;
    await Promise.all(all.map(start));
  });
  video.addEventListener("playing", fill);
  return box;
}

/** The middle square of what the camera sees now, as a JPEG. */
export function frame(video, side) {
  const short = Math.min(video.videoWidth, video.videoHeight);
  if (!short) return Promise.resolve(null);
  const canvas = h("canvas", {});
  canvas.width = canvas.height = Math.min(side, short);
  const [x, y] = [(video.videoWidth - short) / 2, (video.videoHeight - short) / 2];
  canvas.getContext("2d").drawImage(video, x, y, short, short, 0, 0, canvas.width, canvas.height);
  return new Promise((resolve) => canvas.toBlob(resolve, "image/jpeg", 0.9));
}
