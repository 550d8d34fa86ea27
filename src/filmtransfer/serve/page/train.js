// Step 2: train. A first classifier is ready in seconds; then it is fine-tuned.

import { alert, announce } from "./announce.js";
import * as api from "./api.js";
import { curve } from "./curve.js";
import { byId, h, setText, show } from "./dom.js";
import { follow } from "./events.js";
import { count, duration, inWords } from "./format.js";
import { icon } from "./icons.js";
import { isStale } from "./names.js";
import { attempt, notify, notifyError } from "./notice.js";
import { changed, current, isTraining, loadVersions, on, photosOf, state } from "./state.js";

const STEPS = { auto: {}, first: { steps: 0 }, long: { steps: 400 } };
const parts = {};
let following = new AbortController();
let followed = null; // the id of the training whose events are received

const usable = () => state.classes.filter((row) => photosOf(row.id).length > 0);
const total = () => usable().reduce((sum, row) => sum + photosOf(row.id).length, 0);

/** The reason why training is not possible yet, or an empty string. */
function obstacle() {
  const withPhotos = usable().length;
  if (withPhotos >= 2) return "";
  if (state.classes.length < 2) return "It needs at least two classes.";
  if (withPhotos === 1) return "Only one class has photos. Add photos to another class.";
  return "Add a few photos to at least two classes.";
}

async function start() {
  const reason = obstacle();
  const where = { after: parts.status };
  if (reason)
    return notify("Training is not possible yet.", reason, { ...where, ends: () => obstacle() !== reason });
  return attempt(async () => {
    const training = await api.train(STEPS[parts.steps.value]);
    announce("Training has started.");
    followTraining(training);
    if ([parts.start, document.body].includes(document.activeElement)) parts.stop.focus();
  }, where);
}

async function stop() {
  await attempt(
    async () => {
      setText(parts.status, "Stopping…");
      await api.cancel(state.training.id);
    },
    { after: parts.status },
  );
}

/** Follows a training to its end. One that had ended before is drawn, but not announced. */
async function followTraining(training) {
  following.abort();
  following = new AbortController();
  followed = training.id;
  const { signal } = following;
  const active = training.state === "waiting" || training.state === "running";
  Object.assign(state, { training, progress: [], published: [], moved: state.moved && !active });
  changed("training");
  try {
    await follow(training.id, (event) => onEvent(event, active), signal);
  } catch (error) {
    if (!signal.aborted) followed = null; // it can be followed again
    notifyError(error, { after: parts.status });
  }
}

async function onEvent({ kind, data }, active) {
  if (kind !== "end" && isTraining()) state.training.state = "running"; // it waits no longer
  if (kind === "progress") {
    state.progress.push(data);
  } else if (kind === "version") {
    state.published.push({ ...data, step: state.progress.at(-1)?.step ?? 0 });
    if (active) await onVersion(data);
  } else if (kind === "end") {
    Object.assign(state.training, { state: data.state, message: data.message });
    if (active) await onEnd(data);
  }
  changed("training");
}

async function onVersion({ number, stage }) {
  await loadVersions().catch(notifyError);
  const estimate = estimateOf(number);
  const accuracy = estimate ? ` Its estimated accuracy is ${inWords(estimate.percentage)}.` : "";
  if (stage === "first")
    announce(`A first classifier is ready.${accuracy} You can try it now, while fine-tuning continues.`);
  else announce(`The fine-tuned classifier is ready.${accuracy}`);
}

async function onEnd({ state: outcome, message }) {
  const focused = document.activeElement === parts.stop;
  await loadVersions().catch(notifyError);
  if (outcome === "failed") alert(`The training failed. ${message || "Try again."}`);
  else announce(outcome === "done" ? "Training has finished." : "Training was stopped.");
  if (focused) requestAnimationFrame(() => parts.start.focus());
}

const estimateOf = (number) => state.versions.find((version) => version.number === number)?.estimate ?? null;

/** The status line of a training that is waiting or running. */
function progressText() {
  const last = state.progress.at(-1);
  if (state.training.state === "waiting") return "Waiting for a worker…";
  if (!last)
    return state.published.length
      ? "A first classifier is ready to try. Fine-tuning…"
      : "Reading the photos…";
  const left = typeof last.seconds_left === "number" ? `, about ${duration(last.seconds_left)} left` : "";
  return `Step ${last.step} of ${last.steps}${left}`;
}

/** The estimate of the version in use, and nothing else: its figures are those of the command. */
function result() {
  const version = current();
  if (!version) return [];
  if (!version.estimate)
    return [h("p", { class: "soft" }, `The accuracy of version ${version.number} has not been estimated.`)];
  return [
    h("p", { class: "soft" }, `Version ${version.number}`),
    h("p", { class: "score" }, h("strong", {}, version.estimate.percentage), " accuracy"),
    h("p", { class: "soft" }, version.estimate.text),
    comparison(version),
  ].filter(Boolean);
}

/** Why an earlier version of the same training may have had a higher estimate: other photos were counted. */
function comparison({ number, estimate }) {
  const other = withEstimates().find(
    (version) => version.number < number && version.estimate.images !== estimate.images,
  );
  if (!other || !isOfTraining()) return null;
  const photos = count(other.estimate.images, "photo");
  const text = `Version ${other.number} had ${other.estimate.percentage}, measured on ${photos}: the two figures cannot be compared.`;
  return h("p", { class: "soft" }, text);
}

/** The versions of the displayed training that have an estimate. */
const withEstimates = () =>
  state.published
    .map((version) => ({ ...version, estimate: estimateOf(version.number) }))
    .filter(({ estimate }) => estimate !== null);

/** Whether the version in use is one that the displayed training made. */
const isOfTraining = () => state.published.some(({ number }) => number === current()?.number);

/** The status line between trainings. */
function statusText(reason) {
  const version = current();
  const photos = `${count(total(), "photo")} in ${count(usable().length, "class", "classes")}`;
  if (version?.source === "uploaded")
    return `Version ${version.number} was uploaded. ${reason || `Train to replace it by one of your own photos: ${photos}.`}`;
  if (reason) return reason;
  if (isStale()) return "Your photos have changed. Train again to use them.";
  if (state.training?.state === "cancelled")
    return version ? `Stopped: fine-tuning was not kept. Version ${version.number} is in use.` : `Stopped. ${photos}, ready.`;
  if (version) return `Trained on ${photos}.`;
  return `${photos}, ready. A first classifier will be ready in seconds.`;
}

/** The reason of a failed training, until another version is in use. */
function failure() {
  const version = current();
  if (state.training?.state !== "failed") return "";
  if (version && !isOfTraining() && Date.parse(version.created) > Date.parse(state.training.created)) return "";
  return `The last training failed. ${state.training.message || ""}`;
}

function drawProgress(busy) {
  const last = state.progress.at(-1);
  show(parts.bar, busy);
  if (last && state.training?.state === "running")
    Object.assign(parts.bar, { max: last.steps || 1, value: last.step });
  else parts.bar.removeAttribute("value");
  const comparable = ({ estimate }, _, all) => estimate.images === all.at(-1).estimate.images;
  const published = withEstimates().filter(comparable);
  const drawn = (state.progress.length > 1 || published.length > 0) && (busy || isOfTraining());
  parts.figure.replaceChildren(...(drawn ? [curve(state.progress, published)] : []));
  show(parts.hint, !drawn && !busy && !current());
}

function draw() {
  const busy = isTraining();
  const reason = obstacle();
  show(parts.start, !busy);
  show(parts.options, !busy && !reason);
  show(parts.stop, busy);
  parts.start.setAttribute("aria-disabled", reason ? "true" : "false");
  setText(parts.label, current() || state.training ? "Train again" : "Train");
  setText(parts.status, busy ? progressText() : statusText(reason));
  parts.card.classList.toggle("asks", !busy && !reason && (isStale() || !current()));
  setText(parts.failed, failure());
  show(parts.failed, Boolean(failure()));
  parts.result.replaceChildren(...result());
  drawProgress(busy);
}

export function setUpTrain() {
  parts.card = byId("train-card");
  parts.label = h("span", {}, "Train");
  parts.start = h(
    "button",
    { type: "button", class: "primary wide big", onclick: start, "aria-describedby": "train-status" },
    parts.label,
  );
  parts.stop = h(
    "button",
    { type: "button", class: "wide big", onclick: stop, hidden: true },
    icon("stop"),
    "Stop training",
  );
  parts.status = h("p", { class: "status", id: "train-status" });
  parts.bar = h("progress", { hidden: true, "aria-label": "Training" });
  parts.result = h("div", { class: "result" });
  parts.figure = h("div", {});
  parts.failed = h("p", { class: "problem", hidden: true });
  parts.hint = h(
    "p",
    { class: "hint" },
    "It starts from a network that was trained on a million images, and learns only what distinguishes your classes: about a hundred kilobytes.",
  );
  parts.steps = h(
    "select",
    { id: "steps" },
    h("option", { value: "auto" }, "Automatic"),
    h("option", { value: "first" }, "First classifier only (seconds)"),
    h("option", { value: "long" }, "400 steps"),
  );
  parts.options = h("p", { class: "field" }, h("label", { for: "steps" }, "Fine-tuning"), parts.steps);
  parts.card.append(
    parts.start,
    parts.stop,
    parts.status,
    parts.bar,
    parts.failed,
    parts.result,
    parts.figure,
    parts.options,
    parts.hint,
  );
  on("training classes photos versions assessment", draw);
  on("trainings", followNewest);
  on("project", () => {
    following.abort();
    followed = null;
  });
}

/** Follows the running training, or draws the curve of the last one. */
function followNewest() {
  const [newest] = state.trainings;
  if (newest && newest.id !== followed) followTraining(newest);
  else draw();
}
