// One photo, large, with what can be done to it: move, remove, look at the next. After each the next
// photo is there and the focus stays where it was, so that many can be sorted quickly.

import { announce } from "./announce.js";
import * as dialog from "./dialog.js";
import { focusOn, h, say, show } from "./dom.js";
import { percent } from "./format.js";
import { icon } from "./icons.js";
import { movePhoto, removePhoto } from "./photos.js";
import { className, state } from "./state.js";
import { large } from "./thumbnails.js";

/**
 * `photos()` gives the photos to walk through, `at` is the id to begin with, `mistake(photo)` what the
 * classifier takes it for, if that is the matter, and `back(id)` the element that gets the focus afterwards.
 */
export function view({ photos, at, mistake = () => null, back }) {
  let place = Math.max(
    0,
    photos().findIndex((photo) => photo.id === at),
  );
  const now = () => photos()[place] ?? null;
  const frame = h("div", { class: "frame" });
  const where = h("p", { class: "soft" });
  const why = h("p", { class: "why" });
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
  const walk = h("div", { class: "row between" }, previous, where, next);
  const body = h("div", { class: "stack" }, frame, walk, why, suggestion, mover);
  const close = h("button", { type: "button" }, "Close");
  const title = h("span", {});

  function draw() {
    const photo = now();
    if (!photo) return box.close();
    const all = photos();
    const said = mistake(photo);
    const name = className(photo.class_id);
    const others = state.classes.filter((row) => row.id !== photo.class_id);
    say(title, name);
    frame.replaceChildren(large(photo.id, `Photo ${place + 1} of ${all.length}, ${name}`));
    say(where, `${place + 1} of ${all.length}`);
    say(
      why,
      said
        ? `You say ${name}. The classifier says ${said.name}, and is ${percent(said.p)} sure. If you were right, keep it: it teaches the difference.`
        : "",
    );
    show(why, Boolean(said));
    const target = said && others.find((row) => row.name === said.name);
    suggestion.replaceChildren(icon("move"), `Move it to ${said?.name}`);
    suggestion.onclick = () => act(() => movePhoto(photo, target.id));
    show(suggestion, Boolean(target));
    select.replaceChildren(...others.map((row) => h("option", { value: row.id }, row.name)));
    show(mover, others.length > 0 && !(target && others.length === 1));
    show(walk, all.length > 1);
    return undefined;
  }
  async function act(work) {
    const focused = document.activeElement;
    if (!(await work())) return;
    place = Math.min(place, photos().length - 1);
    draw();
    if (box.open) (focused.isConnected && !focused.hidden && focused.offsetParent ? focused : close).focus();
  }
  function turn(by) {
    place = (place + by + photos().length) % photos().length;
    draw();
    announce(`Photo ${place + 1} of ${photos().length}.`);
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
