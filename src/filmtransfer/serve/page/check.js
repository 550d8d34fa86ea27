// Where it is wrong: each photo judged by a classifier that has not learned from it, in a table of what
// it is against what was said, with the photos that went wrong. Often the photo is in the wrong class.

import * as api from "./api.js";
import { byId, focusOn, h, show } from "./dom.js";
import { count, percent } from "./format.js";
import { notifyError } from "./notice.js";
import { changed, className, current, on, state } from "./state.js";
import { picture } from "./thumbnails.js";
import { view } from "./viewer.js";

const WIDE = 8; // classes up to which a table can be read
const SHOWN = 6; // photos in one cell
let drawn = null;

/** The mistakes whose photo is still there, in the class it was in. */
function mistakes() {
  const rows = state.check?.photos ?? [];
  return rows
    .filter((row) => row.truth !== row.said)
    .map((row) => ({ ...row, photo: state.photos.find((photo) => photo.id === row.id) }))
    .filter((row) => row.photo && className(row.photo.class_id) === row.truth);
}

function open(row) {
  const place = (id) =>
    document.querySelector(`#check-body [data-mistake="${id}"]`) ??
    document.querySelector("#check-body [data-mistake]") ??
    byId("check-title");
  view({
    photos: () => mistakes().map((other) => other.photo),
    at: row.id,
    mistake: (photo) => {
      const found = mistakes().find((other) => other.id === photo.id);
      return found ? { name: found.said, p: found.p } : null;
    },
    back: place,
  });
}

const thumb = (row) =>
  h(
    "button",
    {
      type: "button",
      class: "tile",
      "data-mistake": row.id,
      "aria-label": `A photo of ${row.truth}, taken for ${row.said}, ${percent(row.p)}. Look at it`,
      onclick: () => open(row),
    },
    picture(row.id),
  );

function some(rows) {
  const more = rows.length > SHOWN ? h("span", { class: "soft" }, `and ${rows.length - SHOWN} more`) : null;
  return h("div", { class: "tiles small" }, rows.slice(0, SHOWN).map(thumb), more);
}

function cell(truth, said, number, wrong) {
  if (truth === said)
    return h("td", { class: "right" }, h("b", {}, String(number)), h("span", { class: "heard" }, " right"));
  if (!number)
    return h(
      "td",
      { class: "none" },
      h("span", { "aria-hidden": "true" }, "·"),
      h("span", { class: "heard" }, "0"),
    );
  return h("td", { class: "wrong" }, h("b", {}, String(number)), some(wrong));
}

/** The table with its classes in the order of the page; those that are gone come last. */
function inOrder({ classes, confusion }) {
  const place = (name) => state.classes.findIndex((row) => row.name === name) + 1 || Infinity;
  const order = classes
    .map((_, i) => i)
    .sort((a, b) =>
      place(classes[a]) === place(classes[b]) ? a - b : place(classes[a]) - place(classes[b]),
    );
  return {
    classes: order.map((i) => classes[i]),
    confusion: order.map((i) => order.map((j) => confusion[i][j])),
  };
}

function table(wrong) {
  const { classes, confusion } = inOrder(state.check);
  const head = h(
    "tr",
    {},
    h("td", { class: "corner" }, h("span", { "aria-hidden": "true" }, "is ↓ said →")),
    classes.map((name) => h("th", { scope: "col" }, name)),
  );
  const rows = classes.map((truth, i) =>
    h(
      "tr",
      {},
      h("th", { scope: "row" }, truth),
      classes.map((said, j) =>
        cell(
          truth,
          said,
          confusion[i][j],
          wrong.filter((row) => row.truth === truth && row.said === said),
        ),
      ),
    ),
  );
  const caption = h(
    "caption",
    { class: "heard" },
    "Rows: what the photo is. Columns: what the classifier said.",
  );
  return h(
    "div",
    { class: "scroll", role: "region", "aria-label": "Table of what was said", tabindex: "0" },
    h("table", { class: "confusion" }, caption, h("thead", {}, head), h("tbody", {}, rows)),
  );
}

function groups(wrong) {
  const by = Map.groupBy(wrong, (row) => `${row.truth}\n${row.said}`);
  const sorted = [...by.values()].sort((a, b) => b.length - a.length);
  return h(
    "ul",
    { class: "groups", role: "list" },
    sorted.map((rows) =>
      h(
        "li",
        { class: "card" },
        h("p", {}, h("b", {}, rows[0].truth), " taken for ", h("b", {}, rows[0].said)),
        some(rows),
      ),
    ),
  );
}

function draw() {
  const body = byId("check-body");
  const version = current();
  show(byId("check"), Boolean(version));
  const focused = document.activeElement?.closest?.("#check-body [data-mistake]")?.dataset.mistake;
  if (!state.check) {
    const why =
      version?.source === "uploaded"
        ? "The version in use was uploaded, so it has not been judged on your photos. Train to see."
        : "After training, the photos it takes for another class are shown here, so that you can put right the ones that are in the wrong place.";
    body.replaceChildren(h("p", { class: "soft" }, why));
    return;
  }
  const wrong = mistakes();
  const all = state.check.confusion.flat().reduce((sum, n) => sum + n, 0);
  const off = all - state.check.confusion.reduce((sum, row, i) => sum + row[i], 0);
  const words =
    off === 0
      ? `All ${count(all, "photo")} are told apart rightly, each judged with itself left out.`
      : `${off} of ${count(all, "photo")} ${off === 1 ? "is" : "are"} taken for another class. Open one to move it, if it is in the wrong place; more photos of its kind help too.`;
  body.replaceChildren(
    h("p", { class: "soft" }, words),
    ...(state.check.classes.length <= WIDE ? [table(wrong)] : wrong.length ? [groups(wrong)] : []),
  );
  if (focused) focusOn(document.querySelector(`[data-mistake="${focused}"]`));
}

/** Fetches the judgement of the current version when it is another one than before. */
async function refresh() {
  const version = current();
  const number = version?.source === "trained" ? version.number : null;
  if (number === drawn) return;
  drawn = number;
  try {
    const found = number === null ? null : await api.check(number);
    if (drawn === number) state.check = found;
  } catch (problem) {
    if (drawn === number) state.check = null;
    if (problem.status !== 404) {
      drawn = undefined; // to be asked for again
      notifyError(problem);
    }
  }
  changed("check");
}

export function setUpCheck() {
  on("versions", refresh);
  on("check photos classes versions", draw);
}
