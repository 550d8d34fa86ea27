/* Classify photos in the browser; nothing is uploaded. */
"use strict";

const $ = (id) => document.getElementById(id);
const MAX_CLASSES = 5; // shown for each photo
const percent = (p) => (p > 0.999 && p < 1 ? "> 99.9%" : `${(100 * p).toFixed(p < 0.0995 || p > 0.9995 ? 1 : 0)}%`);

let runtime, session, model;
let queue = Promise.resolve(); // photos are classified one after the other

start().catch((error) => {
  setStatus(
    location.protocol === "file:"
      ? "Browsers do not load a model from a local file. Start a web server in this folder with 'python3 -m http.server 8080', then open http://localhost:8080"
      : `The model could not be loaded (${error.message}).`,
    true,
  );
  $("progress").hidden = true;
});

async function start() {
  model = await (await fetchFile("model.json")).json();
  runtime = await import("./ort/ort.wasm.bundle.min.mjs");
  runtime.env.wasm.wasmPaths = { wasm: new URL("./ort/ort-wasm-simd-threaded.wasm", document.baseURI).href };
  runtime.env.wasm.numThreads = 1; // threads need HTTP headers that most static hosts do not send
  session = await runtime.InferenceSession.create(await download("model.onnx", model.bytes), {
    executionProviders: ["wasm"],
  });
  $("progress").hidden = true;
  $("choose").disabled = false;
  $("camera").disabled = !navigator.mediaDevices?.getUserMedia;
  setStatus("Ready.");
  document.documentElement.dataset.ready = "yes";
}

async function fetchFile(file) {
  const response = await fetch(file);
  if (!response.ok) throw new Error(`${file}: ${response.status}`);
  return response;
}

async function download(file, total) {
  const reader = (await fetchFile(file)).body.getReader();
  const content = new Uint8Array(total);
  let offset = 0;
  for (;;) {
    const { done, value } = await reader.read();
    if (done) break;
    if (offset + value.length > total) throw new Error(`${file} is not the file that was exported`);
    content.set(value, offset);
    offset += value.length;
    $("progress").value = offset / total;
  }
  if (offset !== total) throw new Error(`${file} is incomplete`);
  return content;
}

function setStatus(text, error = false) {
  $("status").textContent = text;
  $("status").classList.toggle("error", error);
}

/* Upright RGBA pixels; colours as stored, transparency on white, as Python reads them. */
async function decode(blob) {
  const bitmap = await createImageBitmap(blob, { colorSpaceConversion: "none", imageOrientation: "from-image" });
  const canvas = document.createElement("canvas");
  canvas.width = bitmap.width;
  canvas.height = bitmap.height;
  const context = canvas.getContext("2d", { willReadFrequently: true });
  context.fillStyle = "#fff";
  context.fillRect(0, 0, canvas.width, canvas.height);
  context.drawImage(bitmap, 0, 0);
  bitmap.close();
  return context.getImageData(0, 0, canvas.width, canvas.height);
}

async function classify(blob) {
  const { size } = model.pixels;
  const pixels = new runtime.Tensor("uint8", toSquare(await decode(blob), model.pixels), [1, 3, size, size]);
  const wanted = model.rejection ? ["probabilities", "ood_score", "rejected"] : ["probabilities"];
  const outputs = await session.run({ pixels }, wanted);
  return {
    probabilities: Array.from(outputs.probabilities.data),
    score: outputs.ood_score?.data[0],
    rejected: Boolean(outputs.rejected?.data[0]), // none of the classes
  };
}

function add(blobs) {
  for (const blob of blobs) queue = queue.then(() => classifyAndShow(blob));
}

async function classifyAndShow(blob) {
  const name = blob.name || "camera";
  setStatus(`Classifying ${name} …`);
  try {
    const started = performance.now();
    const prediction = await classify(blob);
    addResult(blob, name, prediction);
    setStatus(`${name}: ${answer(prediction)} (${Math.round(performance.now() - started)} ms).`);
  } catch (error) {
    const unreadable = error.name === "InvalidStateError" || error.name === "EncodingError";
    setStatus(unreadable ? `${name}: this browser cannot read it as an image.` : `${name}: ${error.message}`, true);
  }
}

function ranking(probabilities) {
  return model.classes.map((name, i) => ({ name, p: probabilities[i] })).sort((a, b) => b.p - a.p);
}

function answer({ probabilities, rejected }) {
  const nearest = ranking(probabilities)[0].name;
  return rejected ? `none of these, nearest to ${nearest}` : nearest;
}

function createElement(tag, className, text) {
  const element = document.createElement(tag);
  if (className) element.className = className;
  if (text !== undefined) element.textContent = text;
  return element;
}

function addResult(blob, name, { probabilities, score, rejected }) {
  const ranked = ranking(probabilities);
  const card = createElement("li", rejected ? "card rejected" : "card");
  card.dataset.class = ranked[0].name;
  card.dataset.probabilities = JSON.stringify(probabilities);
  if (score !== undefined) card.dataset.oodScore = score;
  const picture = createElement("img");
  picture.alt = `The photo ${name}`;
  picture.src = URL.createObjectURL(blob);
  picture.onload = () => URL.revokeObjectURL(picture.src);
  const text = createElement("div");
  text.append(createElement("h3", "", rejected ? "None of these" : ranked[0].name), createElement("p", "name", name));
  if (rejected) text.append(createElement("p", "nearest", `Nearest class: ${ranked[0].name}`));
  const bars = createElement("ul", "bars");
  for (const { name: label, p } of ranked.slice(0, MAX_CLASSES)) {
    const row = createElement("div", "row");
    row.append(createElement("span", "", label), createElement("span", "", percent(p)));
    const fill = createElement("div", "fill");
    fill.style.setProperty("--p", p);
    const track = createElement("div", "track");
    track.append(fill);
    const line = createElement("li");
    line.append(row, track);
    bars.append(line);
  }
  text.append(bars);
  card.append(picture, text);
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

let cameraStream;
$("camera").onclick = async () => {
  try {
    cameraStream = await navigator.mediaDevices.getUserMedia({ video: { facingMode: "environment" } });
  } catch (error) {
    setStatus(`The camera cannot be used (${error.message}).`, true);
    return;
  }
  $("video").srcObject = cameraStream;
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
$("viewer").onclose = () => cameraStream?.getTracks().forEach((track) => track.stop());
