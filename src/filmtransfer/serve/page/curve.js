// The accuracy by step as an SVG, which is redrawn during the training.

import { h, svg } from "./dom.js";
import { percent } from "./format.js";

const [W, H] = [320, 176];
const PAD = { left: 40, right: 14, top: 12, bottom: 28 };
const finite = (value) => typeof value === "number" && Number.isFinite(value);

const line = (points) =>
  points.map(([x, y], i) => `${i ? "L" : "M"}${x.toFixed(1)} ${y.toFixed(1)}`).join("");

function description(progress, published) {
  const last = progress.at(-1);
  const estimates = published.map(
    ({ stage, estimate }) => `${stage === "first" ? "first classifier" : "fine-tuned"} ${estimate.percentage}`,
  );
  const first = last
    ? [
        `step ${last.step} of ${last.steps}`,
        finite(last.accuracy) && `training accuracy ${percent(last.accuracy)}`,
      ]
    : [];
  return ["Accuracy by step", ...first, ...estimates].filter(Boolean).join(", ");
}

/** The figure of a training: its progress, and the estimates of the versions that have one. */
export function curve(progress, published) {
  const steps = Math.max(
    1,
    ...progress.map((point) => point.steps || point.step),
    ...published.map((version) => version.step),
  );
  const x = (step) => PAD.left + ((W - PAD.left - PAD.right) * step) / steps;
  const y = (share) => PAD.top + (H - PAD.top - PAD.bottom) * (1 - share);
  const accuracy = progress
    .filter((point) => finite(point.accuracy))
    .map((point) => [x(point.step), y(point.accuracy)]);
  const grid = [0, 0.5, 1].flatMap((share) => [
    svg("line", { class: "grid", x1: PAD.left, x2: W - PAD.right, y1: y(share), y2: y(share) }),
    svg("text", { x: PAD.left - 8, y: y(share) + 4, "text-anchor": "end" }, percent(share)),
  ]);
  const axis = [
    svg("text", { x: PAD.left, y: H - 8 }, "0"),
    svg(
      "text",
      { x: W - PAD.right, y: H - 8, "text-anchor": "end" },
      `${steps} ${steps === 1 ? "step" : "steps"}`,
    ),
  ];
  const estimates = published.map(({ step, estimate }) =>
    svg("circle", { class: "estimate", cx: x(step), cy: y(estimate.accuracy), r: 5.5 }),
  );
  const drawing = svg(
    "svg",
    { viewBox: `0 0 ${W} ${H}`, role: "img", "aria-label": description(progress, published) },
    ...grid,
    ...axis,
    svg("path", { class: "accuracy", d: line(accuracy) }),
    ...estimates,
  );
  const key = (kind, text) => h("span", { class: `key ${kind}` }, text);
  return h(
    "figure",
    { class: "curve" },
    drawing,
    h(
      "figcaption",
      {},
      accuracy.length ? key("accuracy", "training accuracy") : null,
      estimates.length ? key("estimate", "estimated accuracy") : null,
    ),
  );
}
