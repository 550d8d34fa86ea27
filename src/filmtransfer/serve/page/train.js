// Step 2: one button. A first answer comes in seconds, and gets better while it trains.

import { announce } from "./announce.js";
import * as api from "./api.js";
import { curve } from "./curve.js";
import { byId, h, say, show } from "./dom.js";
import { count, duration, percent, percentWords } from "./format.js";
import { icon } from "./icons.js";
import { attempt, notify, notifyError } from "./notice.js";
import { changed, current, isStale, isTraining, loadVersions, on, photosOf, state } from "./state.js";
import { follow } from "./stream.js";

const STEPS = { auto: {}, first: { steps: 0 }, long: { steps: 400 } };
const parts = {};
let following = new AbortController();

const usable = () => state.classes.filter((row) => photosOf(row.id).length > 0);
const total = () => usable().reduce((sum, row) => sum + photosOf(row.id).length, 0);

/** Why it cannot train yet, or nothing. */
function lacking() {
  const filled = usable().length;
  if (filled >= 2) return "";
  if (state.classes.length < 2) return "It needs two classes or more: things to tell apart.";
  if (filled === 1) return "One class has photos. Give another class some too.";
  return "Give at least two classes a few photos.";
}

async function start() {
  const why = lacking();
  if (why) return notify("It cannot train yet.", why);
  return attempt(async () => {
    const training = await api.train(STEPS[parts.steps.value]);
    announce("Training has begun.");
    watch(training);
    if (document.activeElement === parts.go || document.activeElement === document.body) parts.stop.focus();
  });
}

async function stop() {
  await attempt(async () => {
    say(parts.status, "Stopping…");
    await api.cancel(state.training.id);
  });
}

/** Follows a training to its end. One that ended before the page came is only drawn, not announced. */
export async function watch(training) {
  following.abort();
  following = new AbortController();
  const loud = training.state === "waiting" || training.state === "running";
  Object.assign(state, { training, points: [], marks: [], moved: state.moved && !loud });
  changed("training");
  try {
    await follow(training.id, (event) => told(event, loud), following.signal);
  } catch (problem) {
    notifyError(problem);
  }
}

async function told({ kind, data }, loud) {
  if (kind === "progress") {
    if (isTraining()) state.training.state = "running";
    state.points.push(data);
  } else if (kind === "version") {
    state.marks.push({ ...data, step: state.points.at(-1)?.step ?? 0 });
    if (loud) await fresh(data);
  } else if (kind === "end") {
    Object.assign(state.training, { state: data.state, message: data.message });
    if (loud) await ended(data);
  }
  changed("training");
}

async function fresh({ stage, accuracy }) {
  await loadVersions().catch(notifyError);
  const right =
    typeof accuracy === "number"
      ? `: right on ${percentWords(accuracy)} of your photos, each judged with itself left out`
      : "";
  if (stage === "first")
    announce(`A first answer is ready${right}. You can try it now. It goes on training.`);
  else announce(`The fine-tuned classifier is ready${right}.`);
}

async function ended({ state: how, message }) {
  const focused = document.activeElement === parts.stop;
  await loadVersions().catch(notifyError);
  if (how === "failed") notify("The training did not work.", message || "Try again.");
  else announce(how === "done" ? "Training is done." : "Training was stopped.");
  if (focused) requestAnimationFrame(() => parts.go.focus());
}

/** What the status line says, and how far along it is. */
function progress() {
  const last = state.points.at(-1);
  if (state.training.state === "waiting") return "Waiting for its turn…";
  if (!last)
    return state.marks.length
      ? "A first answer is ready to try. Now it gets better…"
      : "Looking at the photos…";
  const left = typeof last.seconds_left === "number" ? `, about ${duration(last.seconds_left)} left` : "";
  return `Step ${last.step} of ${last.steps}${left}`;
}

function result() {
  const version = current();
  const tuned = state.marks.at(-1);
  const first = state.marks.find((mark) => mark.stage === "first");
  const accuracy = isTraining() ? tuned?.accuracy : (version?.accuracy ?? tuned?.accuracy);
  if (typeof accuracy !== "number") return [];
  const shown = isTraining() ? tuned : version;
  const between =
    typeof shown.low === "number"
      ? ` With so few photos the truth lies between ${percent(shown.low)} and ${percent(shown.high)}.`
      : "";
  const kind = shown.stage === "tuned" ? " Fine-tuning has seen most of them, so this is a little kind." : "";
  const gain =
    first && tuned !== first && Math.round(100 * first.accuracy) !== Math.round(100 * accuracy)
      ? ` The first answer had ${percent(first.accuracy)}.`
      : "";
  return [
    h("p", { class: "score" }, h("strong", {}, percent(accuracy)), " right"),
    h(
      "p",
      { class: "soft" },
      `On your own photos, each judged with itself left out.${kind}${between}${gain}`,
    ),
  ];
}

function draw() {
  const busy = isTraining();
  const why = lacking();
  const state_ = state.training?.state;
  show(parts.go, !busy);
  show(parts.options, !busy && !why);
  show(parts.stop, busy);
  parts.go.setAttribute("aria-disabled", why ? "true" : "false");
  say(parts.label, current() || state_ ? "Train again" : "Train");
  let words = why || `${count(total(), "photo")} in ${count(usable().length, "class", "classes")}, ready.`;
  if (!why && !current()) words += " A first answer comes in seconds.";
  if (!why && isStale()) words = "Your photos have changed. Train again to use them.";
  else if (!why && state_ === "done")
    words = `Trained on ${count(total(), "photo")} in ${count(usable().length, "class", "classes")}.`;
  if (state_ === "cancelled" && !busy && !isStale())
    words = `Stopped. ${current() ? `Version ${current().number} is in use.` : words}`;
  say(parts.status, busy ? progress() : words);
  parts.card.classList.toggle("asks", !busy && !why && (isStale() || !current()));
  show(parts.bar, busy);
  const last = state.points.at(-1);
  if (last && state_ === "running") Object.assign(parts.bar, { max: last.steps || 1, value: last.step });
  else parts.bar.removeAttribute("value");
  show(parts.failed, state_ === "failed");
  say(
    parts.failed,
    state_ === "failed" ? `The last training did not work. ${state.training.message || ""}` : "",
  );
  parts.result.replaceChildren(...result());
  const drawn = state.points.length > 1 || state.marks.length > 0;
  parts.figure.replaceChildren(...(drawn ? [curve(state.points, state.marks)] : []));
  show(parts.teach, !drawn && !busy && !current());
}

export function setUpTrain() {
  parts.card = byId("train-card");
  parts.label = h("span", {}, "Train");
  parts.go = h(
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
  parts.teach = h(
    "p",
    { class: "teach" },
    "It starts from a network that has seen a million pictures, and learns only what sets your things apart: about a hundred kilobytes.",
  );
  parts.steps = h(
    "select",
    { id: "steps" },
    h("option", { value: "auto" }, "As long as it helps"),
    h("option", { value: "first" }, "First answer only, in seconds"),
    h("option", { value: "long" }, "Long: 400 steps"),
  );
  parts.options = h("p", { class: "field" }, h("label", { for: "steps" }, "How long"), parts.steps);
  parts.card.append(
    parts.go,
    parts.stop,
    parts.status,
    parts.bar,
    parts.failed,
    parts.result,
    parts.figure,
    parts.options,
    parts.teach,
  );
  on("training classes photos versions", draw);
}

/** Takes up the training that runs, or draws the curve of the last one. */
export async function resumeTraining() {
  const [newest] = await api.trainings();
  if (newest) watch(newest);
  else changed("training");
}
