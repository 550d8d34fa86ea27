// Accuracy and loss by step, as an SVG that grows while it trains.

import { h, svg } from "./dom.js";
import { percent } from "./format.js";

const [W, H] = [320, 176];
const PAD = { left: 40, right: 14, top: 12, bottom: 28 };
const finite = (value) => typeof value === "number" && Number.isFinite(value);

const line = (points) =>
  points.map(([x, y], i) => `${i ? "L" : "M"}${x.toFixed(1)} ${y.toFixed(1)}`).join("");

function words(points, marks) {
  const last = points.at(-1);
  const seen = marks
    .filter((mark) => finite(mark.accuracy))
    .map((mark) => `${mark.stage === "first" ? "first answer" : "fine-tuned"} ${percent(mark.accuracy)}`);
  const first = last
    ? [
        `step ${last.step} of ${last.steps}`,
        finite(last.accuracy) && `accuracy while training ${percent(last.accuracy)}`,
        finite(last.loss) && `loss ${last.loss.toFixed(2)}`,
      ]
    : [];
  return ["Accuracy by step", ...first, ...seen].filter(Boolean).join(", ");
}

/** The figure for what a training has told so far. */
export function curve(points, marks) {
  const steps = Math.max(
    1,
    ...points.map((point) => point.steps || point.step),
    ...marks.map((mark) => mark.step),
  );
  const most = Math.max(1e-9, ...points.map((point) => (finite(point.loss) ? point.loss : 0)));
  const x = (step) => PAD.left + ((W - PAD.left - PAD.right) * step) / steps;
  const y = (share) => PAD.top + (H - PAD.top - PAD.bottom) * (1 - share);
  const accuracy = points
    .filter((point) => finite(point.accuracy))
    .map((point) => [x(point.step), y(point.accuracy)]);
  const loss = points
    .filter((point) => finite(point.loss))
    .map((point) => [x(point.step), y(Math.max(0, point.loss) / most)]);
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
  const judged = marks
    .filter((mark) => finite(mark.accuracy))
    .map((mark) => svg("circle", { class: "judged", cx: x(mark.step), cy: y(mark.accuracy), r: 5.5 }));
  const drawing = svg(
    "svg",
    { viewBox: `0 0 ${W} ${H}`, role: "img", "aria-label": words(points, marks) },
    ...grid,
    ...axis,
    svg("path", { class: "loss", d: line(loss) }),
    svg("path", { class: "accuracy", d: line(accuracy) }),
    ...judged,
  );
  const key = (kind, text) => h("span", { class: `key ${kind}` }, text);
  return h(
    "figure",
    { class: "curve" },
    drawing,
    h(
      "figcaption",
      {},
      accuracy.length ? key("accuracy", "accuracy") : null,
      loss.length ? key("loss", "loss") : null,
      judged.length ? key("judged", "each photo left out") : null,
    ),
  );
}
