// A dialog with one photo, which can be moved or removed. The next photo is shown after each action and the
// focus stays where it was, so that many photos can be sorted quickly.

import { announce } from "./announce.js";
import * as dialog from "./dialog.js";
import { focusOn, h, setText, show } from "./dom.js";
import { percent } from "./format.js";
import { icon } from "./icons.js";
import { movePhoto, removePhoto } from "./photos.js";
import { className, state } from "./state.js";
import { original } from "./thumbnails.js";

/**
 * `photos()` returns the photos, `at` is the id of the first one to show, `mistake(photo)` returns the wrong
 * prediction if there is one, and `back(id)` the element that gets the focus afterwards.
 */
export function view({ photos, at, mistake = () => null, back }) {
  let index = Math.max(
    0,
    photos().findIndex((photo) => photo.id === at),
  );
  const now = () => photos()[index] ?? null;
  const frame = h("div", { class: "frame" });
  const position = h("p", { class: "soft" });
  const explanation = h("p", { class: "explanation" });
  const select = h("select", { id: "move-to" });
  const suggestion = h("button", { type: "button", class: "primary wide" });
  const remove = h("button", { type: "button", class: "danger" }, icon("bin"), "Remove photo");
  const move = h("button", { type: "button" }, icon("move"), "Move");
  const previous = h(
    "button",
    { type: "button", class: "square", "aria-label": "Previous photo" },
    icon("back"),
  );
  const next = h("button", { type: "button", class: "square", "aria-label": "Next photo" }, icon("next"));
  const mover = h(
    "div",
    { class: "field" },
    h("label", { for: "move-to" }, "Move to another class"),
    h("div", { class: "row fixed" }, select, move),
  );
  const navigation = h("div", { class: "row between" }, previous, position, next);
  const body = h("div", { class: "stack" }, frame, navigation, explanation, suggestion, mover);
  const close = h("button", { type: "button" }, "Close");
  const title = h("span", {});

  function draw() {
    const photo = now();
    if (!photo) return box.close();
    const all = photos();
    const predicted = mistake(photo);
    const name = className(photo.class_id);
    const others = state.classes.filter((row) => row.id !== photo.class_id);
    setText(title, name);
    frame.replaceChildren(original(photo.id, `Photo ${index + 1} of ${all.length}, ${name}`));
    setText(position, `${index + 1} of ${all.length}`);
    setText(
      explanation,
      predicted
        ? `Your label is ${name}. The classifier predicts ${predicted.name} with ${percent(predicted.p)} confidence. If your label is correct, keep the photo: it helps to learn the difference.`
        : "",
    );
    show(explanation, Boolean(predicted));
    const target = predicted && others.find((row) => row.name === predicted.name);
    suggestion.replaceChildren(icon("move"), `Move it to ${predicted?.name}`);
    suggestion.onclick = () => act(() => movePhoto(photo, target.id));
    show(suggestion, Boolean(target));
    select.replaceChildren(...others.map((row) => h("option", { value: row.id }, row.name)));
    show(mover, others.length > 0 && !(target && others.length === 1));
    show(navigation, all.length > 1);
    return undefined;
  }
  async function act(work) {
    const focused = document.activeElement;
    if (!(await work())) return;
    index = Math.min(index, photos().length - 1);
    draw();
    if (box.open) (focused.isConnected && !focused.hidden && focused.offsetParent ? focused : close).focus();
  }
  function turn(by) {
    index = (index + by + photos().length) % photos().length;
    draw();
    announce(`Photo ${index + 1} of ${photos().length}.`);
  }

  remove.addEventListener("click", () => act(() => removePhoto(now())));
  move.addEventListener("click", () => act(() => movePhoto(now(), select.value)));
  previous.addEventListener("click", () => turn(-1));
  next.addEventListener("click", () => turn(1));
  const box = dialog.open({
    title,
    body,
    buttons: [remove, close],
    className: "viewer",
    closed: () => focusOn(back(now()?.id)),
  });
  close.addEventListener("click", () => box.close());
  box.addEventListener("keydown", (event) => {
    if (event.target === select || photos().length < 2) return;
    if (event.key === "ArrowRight") turn(1);
    if (event.key === "ArrowLeft") turn(-1);
  });
  draw();
  close.focus();
}
