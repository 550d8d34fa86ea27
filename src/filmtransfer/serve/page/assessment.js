// The confusion matrix of the leave-one-out predictions, with the misclassified photos. Often such a photo
// is in the wrong class.

import * as api from "./api.js";
import { byId, focusOn, h, show } from "./dom.js";
import { count, percent } from "./format.js";
import { nameNow } from "./names.js";
import { notifyError } from "./notice.js";
import { changed, className, current, on, state } from "./state.js";
import { thumbnail } from "./thumbnails.js";
import { view } from "./viewer.js";

const MAX_CLASSES = 8; // above that the table would be too wide
const MAX_PHOTOS = 6; // in one cell
const narrow = matchMedia("(max-width: 34rem)"); // where a table would not fit
let loaded = null; // the number of the version whose assessment is loaded
let loading = false;

/** The misclassified photos that still exist and are in the same class as then. */
function mistakes() {
  const rows = state.assessment?.photos ?? [];
  return rows
    .filter((row) => row.truth !== row.said)
    .map((row) => ({
      ...row,
      truth: nameNow(row.truth),
      said: nameNow(row.said),
      photo: state.photos.find((photo) => photo.id === row.id),
    }))
    .filter((row) => row.photo && className(row.photo.class_id) === row.truth);
}

function open(row) {
  const focusTarget = (id) =>
    document.querySelector(`#assessment-body [data-mistake="${id}"]`) ??
    document.querySelector("#assessment-body [data-mistake]") ??
    byId("assessment-title");
  view({
    photos: () => mistakes().map((other) => other.photo),
    at: row.id,
    mistake: (photo) => {
      const row = mistakes().find((other) => other.id === photo.id);
      return row ? { name: row.said, p: row.p } : null;
    },
    back: focusTarget,
  });
}

const tile = (row) =>
  h(
    "button",
    {
      type: "button",
      class: "tile",
      "data-mistake": row.id,
      "aria-label": `A photo of ${row.truth}, classified as ${row.said}, ${percent(row.p)}. Open it`,
      onclick: () => open(row),
    },
    thumbnail(row.id),
  );

function tiles(rows) {
  const hidden = rows.length - MAX_PHOTOS;
  const more = hidden > 0 ? h("span", { class: "soft" }, `and ${hidden} more`) : null;
  return h("div", { class: "tiles small" }, rows.slice(0, MAX_PHOTOS).map(tile), more);
}

function cell(truth, predicted, number, wrong) {
  if (truth === predicted)
    return h(
      "td",
      { class: "right" },
      h("b", {}, String(number)),
      h("span", { class: "visually-hidden" }, " correct"),
    );
  if (!number)
    return h(
      "td",
      { class: "none" },
      h("span", { "aria-hidden": "true" }, "·"),
      h("span", { class: "visually-hidden" }, "0"),
    );
  return h("td", { class: "wrong" }, h("b", {}, String(number)), tiles(wrong));
}

/** The matrix with the present names of its classes in the order of the page; deleted classes come last. */
function inOrder({ classes: names, confusion }) {
  const classes = names.map(nameNow);
  const position = (name) => state.classes.findIndex((row) => row.name === name) + 1 || Infinity;
  const order = classes
    .map((_, i) => i)
    .sort((a, b) =>
      position(classes[a]) === position(classes[b]) ? a - b : position(classes[a]) - position(classes[b]),
    );
  return {
    classes: order.map((i) => classes[i]),
    confusion: order.map((i) => order.map((j) => confusion[i][j])),
  };
}

function table(wrong) {
  const { classes, confusion } = inOrder(state.assessment);
  const head = h(
    "tr",
    {},
    h("td", { class: "corner" }, h("span", { "aria-hidden": "true" }, "true ↓ predicted →")),
    classes.map((name) => h("th", { scope: "col" }, name)),
  );
  const rows = classes.map((truth, i) =>
    h(
      "tr",
      {},
      h("th", { scope: "row" }, truth),
      classes.map((predicted, j) =>
        cell(
          truth,
          predicted,
          confusion[i][j],
          wrong.filter((row) => row.truth === truth && row.said === predicted),
        ),
      ),
    ),
  );
  const caption = h(
    "caption",
    { class: "visually-hidden" },
    "Rows: the true class. Columns: the predicted class.",
  );
  return h(
    "div",
    { class: "scroll", role: "region", "aria-label": "Confusion matrix", tabindex: "0" },
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
        h("p", {}, h("b", {}, rows[0].truth), " classified as ", h("b", {}, rows[0].said)),
        tiles(rows),
      ),
    ),
  );
}

function summary() {
  const { confusion, images, text } = state.assessment;
  if (images === 0) return text;
  const errors = images - confusion.reduce((sum, row, i) => sum + row[i], 0);
  const all = count(images, "photo");
  const photos = errors ? `${errors} of ${all}` : `${images > 1 ? "All " : ""}${all}`;
  const are = (errors || images) === 1 ? "is" : "are";
  if (!errors) return `${photos} ${are} classified correctly. ${text}`;
  const advice = "If one is in the wrong class, open it and move it; more photos of its kind help, too.";
  return `${photos} ${are} misclassified. ${text} ${advice}`;
}

function explanation() {
  if (loading) return "Loading…";
  const version = current();
  return version?.source === "uploaded"
    ? `Version ${version.number} was uploaded, so it has not been assessed on your photos. Train to see its mistakes.`
    : "After training, the misclassified photos are shown here, so that you can move those that are in the wrong class.";
}

function draw() {
  const body = byId("assessment-body");
  show(byId("assessment"), Boolean(current()));
  const focused = document.activeElement?.closest?.("#assessment-body [data-mistake]")?.dataset.mistake;
  if (!state.assessment) {
    body.replaceChildren(h("p", { class: "soft" }, explanation()));
    return;
  }
  const wrong = mistakes();
  const fits = state.assessment.classes.length <= MAX_CLASSES && !narrow.matches;
  body.replaceChildren(h("p", { class: "soft" }, summary()));
  if (fits && state.assessment.images) body.append(table(wrong));
  else if (wrong.length) body.append(groups(wrong));
  if (focused) focusOn(document.querySelector(`[data-mistake="${focused}"]`));
}

/** Loads the assessment of the current version if that has changed; the one before disappears at once. */
async function refresh() {
  const version = current();
  const number = version?.source === "trained" ? version.number : null;
  if (number === loaded) return;
  loaded = number;
  loading = number !== null;
  state.assessment = null;
  changed("assessment");
  if (!loading) return;
  try {
    const assessment = await api.assessment(number);
    if (loaded === number) state.assessment = assessment;
  } catch (error) {
    if (loaded !== number) return;
    if (error.status !== 404) {
      loaded = undefined; // try again next time
      notifyError(error, { after: byId("assessment-title") });
    }
  }
  loading = false;
  changed("assessment");
}

export function setUpAssessment() {
  narrow.addEventListener("change", draw);
  on("project", () => {
    loaded = null;
  });
  on("versions", refresh);
  on("assessment photos classes versions", draw);
}
