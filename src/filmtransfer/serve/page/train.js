// Step 2: train. A first classifier is ready in seconds; then it is fine-tuned.

import { announce } from "./announce.js";
import * as api from "./api.js";
import { curve } from "./curve.js";
import { byId, h, setText, show } from "./dom.js";
import { follow } from "./events.js";
import { count, duration, percent, percentWords } from "./format.js";
import { icon } from "./icons.js";
import { attempt, notify, notifyError } from "./notice.js";
import { changed, current, isStale, isTraining, loadVersions, on, photosOf, state } from "./state.js";

const STEPS = { auto: {}, first: { steps: 0 }, long: { steps: 400 } };
const parts = {};
let following = new AbortController();

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
  if (reason) return notify("Training is not possible yet.", reason);
  return attempt(async () => {
    const training = await api.train(STEPS[parts.steps.value]);
    announce("Training has started.");
    followTraining(training);
    if ([parts.start, document.body].includes(document.activeElement)) parts.stop.focus();
  });
}

async function stop() {
  await attempt(async () => {
    setText(parts.status, "Stopping…");
    await api.cancel(state.training.id);
  });
}

/** Follows a training to its end. One that had ended before is drawn, but not announced. */
async function followTraining(training) {
  following.abort();
  following = new AbortController();
  const active = training.state === "waiting" || training.state === "running";
  Object.assign(state, { training, progress: [], published: [], moved: state.moved && !active });
  changed("training");
  try {
    await follow(training.id, (event) => onEvent(event, active), following.signal);
  } catch (error) {
    notifyError(error);
  }
}

async function onEvent({ kind, data }, active) {
  if (kind === "progress") {
    if (isTraining()) state.training.state = "running";
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

async function onVersion({ stage, accuracy }) {
  await loadVersions().catch(notifyError);
  const estimate =
    typeof accuracy === "number" ? ` Its estimated accuracy is ${percentWords(accuracy)}.` : "";
  if (stage === "first")
    announce(`A first classifier is ready.${estimate} You can try it now, while fine-tuning continues.`);
  else announce(`The fine-tuned classifier is ready.${estimate}`);
}

async function onEnd({ state: outcome, message }) {
  const focused = document.activeElement === parts.stop;
  await loadVersions().catch(notifyError);
  if (outcome === "failed") notify("The training failed.", message || "Try again.");
  else announce(outcome === "done" ? "Training has finished." : "Training was stopped.");
  if (focused) requestAnimationFrame(() => parts.start.focus());
}

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

function result() {
  const version = current();
  const newest = state.published.at(-1);
  const first = state.published.find((version) => version.stage === "first");
  const accuracy = isTraining() ? newest?.accuracy : (version?.accuracy ?? newest?.accuracy);
  if (typeof accuracy !== "number") return [];
  const shown = isTraining() ? newest : version;
  const interval =
    typeof shown.low === "number"
      ? `, 95% confidence interval ${percent(shown.low)} to ${percent(shown.high)}`
      : "";
  const bias =
    shown.stage === "tuned" ? " Fine-tuning has used most of them, so it is slightly optimistic." : "";
  const gain =
    first && newest !== first && Math.round(100 * first.accuracy) !== Math.round(100 * accuracy)
      ? ` The first classifier had ${percent(first.accuracy)}.`
      : "";
  return [
    h("p", { class: "score" }, h("strong", {}, percent(accuracy)), " accuracy"),
    h("p", { class: "soft" }, `Leave-one-out estimate on your own photos${interval}.${bias}${gain}`),
  ];
}

function draw() {
  const busy = isTraining();
  const reason = obstacle();
  const state_ = state.training?.state;
  show(parts.start, !busy);
  show(parts.options, !busy && !reason);
  show(parts.stop, busy);
  parts.start.setAttribute("aria-disabled", reason ? "true" : "false");
  setText(parts.label, current() || state_ ? "Train again" : "Train");
  let text = reason || `${count(total(), "photo")} in ${count(usable().length, "class", "classes")}, ready.`;
  if (!reason && !current()) text += " A first classifier will be ready in seconds.";
  if (!reason && isStale()) text = "Your photos have changed. Train again to use them.";
  else if (!reason && state_ === "done")
    text = `Trained on ${count(total(), "photo")} in ${count(usable().length, "class", "classes")}.`;
  if (state_ === "cancelled" && !busy && !isStale())
    text = `Stopped. ${current() ? `Version ${current().number} is in use.` : text}`;
  setText(parts.status, busy ? progressText() : text);
  parts.card.classList.toggle("asks", !busy && !reason && (isStale() || !current()));
  show(parts.bar, busy);
  const last = state.progress.at(-1);
  if (last && state_ === "running") Object.assign(parts.bar, { max: last.steps || 1, value: last.step });
  else parts.bar.removeAttribute("value");
  show(parts.failed, state_ === "failed");
  setText(
    parts.failed,
    state_ === "failed" ? `The last training failed. ${state.training.message || ""}` : "",
  );
  parts.result.replaceChildren(...result());
  const drawn = state.progress.length > 1 || state.published.length > 0;
  parts.figure.replaceChildren(...(drawn ? [curve(state.progress, state.published)] : []));
  show(parts.hint, !drawn && !busy && !current());
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
  on("training classes photos versions", draw);
}

/** Follows the running training, or draws the curve of the last one. */
export async function resumeTraining() {
  const [newest] = await api.trainings();
  if (newest) followTraining(newest);
  else changed("training");
}
