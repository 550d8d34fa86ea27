// A prediction: the class, its probability, and the other classes as bars.

import { h, keyed, setText, show } from "./dom.js";
import { inWords, percent } from "./format.js";

const MAX_BARS = 8; // the probabilities of further classes are close to zero

/** The prediction as it is announced. */
export function announcement({ unknown, probabilities }) {
  const best = probabilities[0];
  return unknown ? "None of these." : `${best.class}, ${inWords(percent(best.p))}.`;
}

function bar({ name }) {
  const fill = h("span", { class: "fill" });
  const value = h("span", { class: "value" });
  return h(
    "li",
    {},
    h("span", { class: "name" }, name),
    h("span", { class: "track", "aria-hidden": "true" }, fill),
    value,
  );
}

function update(item, { p, best }) {
  item.classList.toggle("best", best);
  item.querySelector(".fill").style.inlineSize = `${(100 * p).toFixed(1)}%`;
  setText(item.querySelector(".value"), percent(p));
}

/** The element for predictions: `show(prediction)` updates it. */
export function predictionBox() {
  const title = h("p", { class: "answer" });
  const note = h("p", { class: "soft" });
  const list = h("ul", { class: "bars", role: "list", "aria-label": "How likely each class is" });
  const element = h("div", { class: "answers", hidden: true }, title, note, list);
  return {
    element,
    show(prediction) {
      const best = prediction.probabilities[0];
      title.replaceChildren(
        ...(prediction.unknown
          ? ["None of these"]
          : [h("span", { class: "what" }, best.class), " ", h("span", { class: "sure" }, percent(best.p))]),
      );
      element.classList.toggle("unknown", prediction.unknown);
      setText(
        note,
        prediction.unknown ? "It does not resemble any of your classes. If it had to be one of them:" : "",
      );
      show(note, prediction.unknown);
      // Sorted by name, a bar keeps its position while the camera moves.
      const shown = prediction.probabilities
        .slice(0, MAX_BARS)
        .sort((a, b) => a.class.localeCompare(b.class));
      keyed(
        list,
        shown.map((row) => ({
          id: row.class,
          name: row.class,
          p: row.p,
          best: !prediction.unknown && row === best,
        })),
        bar,
        update,
      );
      show(element, true);
    },
    hide: () => show(element, false),
  };
}
