// An answer: what it is, how sure, and the other classes as bars.

import { h, keyed, say, show } from "./dom.js";
import { percent, percentWords } from "./format.js";

const MOST = 8; // bars; further classes are hardly ever near

/** The answer in words, as it is announced. */
export function words({ unknown, probabilities }) {
  const best = probabilities[0];
  return unknown ? "None of these." : `${best.class}, ${percentWords(best.p)}.`;
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
  say(item.querySelector(".value"), percent(p));
}

/** The place for answers: `show(answer)` fills it. */
export function answerBox() {
  const title = h("p", { class: "answer" });
  const note = h("p", { class: "soft" });
  const list = h("ul", { class: "bars", role: "list", "aria-label": "How likely each class is" });
  const element = h("div", { class: "answers", hidden: true }, title, note, list);
  return {
    element,
    show(answer) {
      const best = answer.probabilities[0];
      title.replaceChildren(
        ...(answer.unknown
          ? ["None of these"]
          : [h("span", { class: "what" }, best.class), " ", h("span", { class: "sure" }, percent(best.p))]),
      );
      element.classList.toggle("unknown", answer.unknown);
      say(
        note,
        answer.unknown ? "It is not enough like the photos you have shown. If it had to be one of them:" : "",
      );
      show(note, answer.unknown);
      // In the order of names a bar keeps its place while the camera moves.
      const shown = answer.probabilities.slice(0, MOST).sort((a, b) => a.class.localeCompare(b.class));
      keyed(
        list,
        shown.map((row) => ({
          id: row.class,
          name: row.class,
          p: row.p,
          best: !answer.unknown && row === best,
        })),
        bar,
        update,
      );
      show(element, true);
    },
    hide: () => show(element, false),
  };
}
