/* Photos in, the model's answer out; nothing is sent anywhere. */
"use strict";

const $ = (id) => document.getElementById(id);
const SHOWN = 5; // classes for each photo
const percent = (p) => (p > 0.999 && p < 1 ? "> 99.9%" : `${(100 * p).toFixed(p < 0.0995 || p > 0.9995 ? 1 : 0)}%`);

let runtime, session, model;
let queue = Promise.resolve(); // one photo after the other

start().catch((error) => {
  say(
    location.protocol === "file:"
      ? "A browser does not load a model from a file. Serve this folder: python3 -m http.server, then open http://localhost:8000"
      : `The model could not be loaded (${error.message}).`,
    true,
  );
  $("progress").hidden = true;
});

async function start() {
  model = await (await need("model.json")).json();
  runtime = await import("./ort/ort.wasm.bundle.min.mjs");
  runtime.env.wasm.wasmPaths = { wasm: new URL("./ort/ort-wasm-simd-threaded.wasm", document.baseURI).href };
  runtime.env.wasm.numThreads = 1; // threads need headers that a plain host does not send
  session = await runtime.InferenceSession.create(await download("model.onnx", model.bytes), {
    executionProviders: ["wasm"],
  });
  $("progress").hidden = true;
  $("choose").disabled = false;
  $("camera").disabled = !navigator.mediaDevices?.getUserMedia;
  say("Ready.");
  document.documentElement.dataset.ready = "yes";
}

async function need(file) {
  const answer = await fetch(file);
  if (!answer.ok) throw new Error(`${file}: ${answer.status}`);
  return answer;
}

async function download(file, total) {
  const reader = (await need(file)).body.getReader();
  const content = new Uint8Array(total);
  let at = 0;
  for (;;) {
    const { done, value } = await reader.read();
    if (done) break;
    if (at + value.length > total) throw new Error(`${file} is not the file that was exported`);
    content.set(value, at);
    at += value.length;
    $("progress").value = at / total;
  }
  if (at !== total) throw new Error(`${file} is not whole`);
  return content;
}

function say(text, bad = false) {
  $("status").textContent = text;
  $("status").classList.toggle("bad", bad);
}

/* Upright RGBA pixels; colours as stored, transparency on white, as Python reads them. */
async function decode(blob) {
  const bitmap = await createImageBitmap(blob, { colorSpaceConversion: "none", imageOrientation: "from-image" });
  const canvas = document.createElement("canvas");
  canvas.width = bitmap.width;
  canvas.height = bitmap.height;
  const pen = canvas.getContext("2d", { willReadFrequently: true });
  pen.fillStyle = "#fff";
  pen.fillRect(0, 0, canvas.width, canvas.height);
  pen.drawImage(bitmap, 0, 0);
  bitmap.close();
  return pen.getImageData(0, 0, canvas.width, canvas.height);
}

async function classify(blob) {
  const { size } = model.pixels;
  const pixels = new runtime.Tensor("uint8", toSquare(await decode(blob), model.pixels), [1, 3, size, size]);
  const { probabilities } = await session.run({ pixels }, ["probabilities"]);
  return Array.from(probabilities.data);
}

function add(blobs) {
  for (const blob of blobs) queue = queue.then(() => answer(blob));
}

async function answer(blob) {
  const name = blob.name || "camera";
  say(`Looking at ${name} …`);
  try {
    const began = performance.now();
    const probabilities = await classify(blob);
    show(blob, name, probabilities);
    say(`${name}: ${best(probabilities)[0].name} (${Math.round(performance.now() - began)} ms).`);
  } catch (error) {
    const unreadable = error.name === "InvalidStateError" || error.name === "EncodingError";
    say(unreadable ? `${name}: this browser cannot read it as an image.` : `${name}: ${error.message}`, true);
  }
}

function best(probabilities) {
  return model.classes.map((name, i) => ({ name, p: probabilities[i] })).sort((a, b) => b.p - a.p);
}

function make(tag, className, text) {
  const element = document.createElement(tag);
  if (className) element.className = className;
  if (text !== undefined) element.textContent = text;
  return element;
}

function show(blob, name, probabilities) {
  const ranked = best(probabilities);
  const card = make("li", "card");
  card.dataset.class = ranked[0].name;
  card.dataset.probabilities = JSON.stringify(probabilities);
  const picture = make("img");
  picture.alt = `The photo ${name}`;
  picture.src = URL.createObjectURL(blob);
  picture.onload = () => URL.revokeObjectURL(picture.src);
  const words = make("div");
  words.append(make("h3", "", ranked[0].name), make("p", "name", name));
  const bars = make("ul", "bars");
  for (const { name: label, p } of ranked.slice(0, SHOWN)) {
    const row = make("div", "row");
    row.append(make("span", "", label), make("span", "", percent(p)));
    const fill = make("div", "fill");
    fill.style.setProperty("--p", p);
    const track = make("div", "track");
    track.append(fill);
    const line = make("li");
    line.append(row, track);
    bars.append(line);
  }
  words.append(bars);
  card.append(picture, words);
  $("results").prepend(card);
  $("answers").hidden = false;
}

$("choose").onclick = () => $("files").click();
$("files").onchange = (event) => {
  add([...event.target.files]);
  event.target.value = "";
};

for (const kind of ["dragenter", "dragover", "dragleave", "drop"]) {
  document.addEventListener(kind, (event) => {
    event.preventDefault();
    $("drop").classList.toggle("over", kind === "dragenter" || kind === "dragover");
    if (kind === "drop" && session) add([...event.dataTransfer.files]);
  });
}
document.addEventListener("paste", (event) => session && add([...event.clipboardData.files]));

let stream;
$("camera").onclick = async () => {
  try {
    stream = await navigator.mediaDevices.getUserMedia({ video: { facingMode: "environment" } });
  } catch (error) {
    say(`The camera cannot be used (${error.message}).`, true);
    return;
  }
  $("video").srcObject = stream;
  $("viewer").showModal();
  await $("video").play();
};
$("shoot").onclick = async () => {
  const video = $("video");
  const canvas = document.createElement("canvas");
  canvas.width = video.videoWidth;
  canvas.height = video.videoHeight;
  canvas.getContext("2d").drawImage(video, 0, 0);
  $("viewer").close();
  canvas.toBlob((blob) => add([blob]), "image/png");
};
$("close").onclick = () => $("viewer").close();
$("viewer").onclose = () => stream?.getTracks().forEach((track) => track.stop());
