// Step 1: the classes and their photos, which are dropped, chosen, pasted or recorded.

import { announce } from "./announce.js";
import * as api from "./api.js";
import { confirmed } from "./dialog.js";
import { byId, focusOn, h, keyed, setText, show } from "./dom.js";
import { dropTarget, picker, unpack } from "./files.js";
import { count } from "./format.js";
import { icon } from "./icons.js";
import { attempt, notify } from "./notice.js";
import { PHOTO_TYPE, movePhoto, showPhotos } from "./photos.js";
import { recorder } from "./recorder.js";
import { changed, on, photosOf, state } from "./state.js";
import { addPhotos, uploads } from "./upload.js";

const FEW = 15; // photos shown before "Show all"
const ENOUGH = 5; // photos of a class that are enough to start with
const cards = new WeakMap(); // the elements of each card

async function addClass(name) {
  const row = await api.addClass(name);
  state.classes.push(row);
  state.activeClass = row.id;
  changed("classes");
  return row;
}

async function removeClass(row) {
  const photos = photosOf(row.id).length;
  const text = photos
    ? `The class “${row.name}” and its ${count(photos, "photo")} will be deleted. This cannot be undone. Versions that were trained with them remain.`
    : `The class “${row.name}” has no photos yet.`;
  if (!(await confirmed({ title: "Delete this class?", text, yes: "Delete class" }))) return;
  const at = state.classes.indexOf(row);
  await attempt(async () => {
    await api.removeClass(row.id);
    state.classes = state.classes.filter((other) => other.id !== row.id);
    state.photos = state.photos.filter((photo) => photo.class_id !== row.id);
    changed("classes", "photos");
    announce(`Class ${row.name} deleted.`);
    const next = byId("classes").children[Math.min(at, state.classes.length - 1)];
    focusOn(next?.querySelector("h3") ?? byId("new-name"));
  });
}

/** Replaces the heading by a text field until the name is saved or unchanged. */
function rename(parts, row) {
  const id = `rename-${row.id}`;
  const field = h("input", { id, value: row.name, maxlength: "100", autocomplete: "off" });
  const form = h(
    "form",
    { class: "row rename" },
    h("label", { for: id, class: "visually-hidden" }, `New name for ${row.name}`),
    field,
    h("button", { class: "primary" }, "Save"),
  );
  let finished = false;
  function finish(focus) {
    if (finished) return;
    finished = true;
    form.remove();
    show(parts.head, true);
    if (focus) parts.edit.focus();
  }
  form.addEventListener("submit", async (event) => {
    event.preventDefault();
    const name = field.value.trim();
    if (!name || name === row.name) return finish(true);
    return attempt(async () => {
      Object.assign(row, { name: (await api.renameClass(row.id, name)).name });
      changed("classes", "photos");
      announce(`Renamed to ${row.name}.`);
      finish(true);
    });
  });
  form.addEventListener("keydown", (event) => event.key === "Escape" && finish(true));
  form.addEventListener(
    "focusout",
    (event) => !form.contains(event.relatedTarget) && field.value.trim() === row.name && finish(false),
  );
  show(parts.head, false);
  parts.head.before(form);
  field.focus();
  field.select();
}

function card(row) {
  const title = h("h3", { id: `class-${row.id}`, tabindex: "-1" });
  const total = h("p", { class: "soft" });
  const edit = h("button", { type: "button", class: "quiet square" }, icon("edit"));
  const bin = h("button", { type: "button", class: "quiet square" }, icon("bin"));
  const head = h("div", { class: "class-head" }, h("div", { class: "grow" }, title, total), edit, bin);
  const [pick, input] = picker({
    label: [icon("photos"), "Add photos"],
    className: "add-photos",
    chosen: (files) => addPhotos(row.id, files),
  });
  const record = h(
    "button",
    { type: "button", class: "record", "aria-expanded": "false" },
    icon("camera"),
    "Camera",
  );
  const progress = h("progress", { hidden: true });
  const hint = h("p", { class: "hint" });
  const list = h("ul", { class: "tiles", role: "list" });
  const all = h("button", { type: "button", class: "quiet", hidden: true });
  const parts = { title, total, edit, bin, head, pick, record, progress, hint, list, all, limit: FEW };
  const box = h(
    "section",
    { class: "card class", "aria-labelledby": title.id, tabindex: "-1" },
    head,
    h("div", { class: "row" }, pick, input, record),
    progress,
    list,
    all,
    hint,
  );
  cards.set(box, parts);

  edit.addEventListener("click", () => rename(parts, row));
  bin.addEventListener("click", () => removeClass(row));
  all.addEventListener("click", () => {
    parts.limit = parts.limit === FEW ? Infinity : FEW;
    update(box, row);
  });
  record.addEventListener("click", () => {
    if (parts.panel) return parts.panel.close();
    document.querySelectorAll(".recorder").forEach((other) => other.close());
    parts.panel = recorder(row.id, row.name, () => {
      parts.panel = null;
      record.setAttribute("aria-expanded", "false");
      if (box.isConnected) record.focus();
    });
    record.setAttribute("aria-expanded", "true");
    record.parentElement.after(parts.panel);
    return parts.panel.open();
  });
  box.addEventListener("focusin", () => {
    state.activeClass = row.id;
  });
  dropTarget(box, async (transfer) => {
    const { files, folders } = await unpack(transfer);
    await addPhotos(row.id, [...files, ...folders.flatMap((folder) => folder.files)]);
  });
  acceptPhotos(box, row);
  return box;
}

/** Moves a photo of another class that is dragged here. */
function acceptPhotos(box, row) {
  box.addEventListener(
    "dragover",
    (event) => event.dataTransfer.types.includes(PHOTO_TYPE) && event.preventDefault(),
  );
  box.addEventListener("drop", (event) => {
    const photo = state.photos.find((other) => other.id === event.dataTransfer.getData(PHOTO_TYPE));
    if (!photo) return;
    event.preventDefault();
    if (photo.class_id !== row.id) movePhoto(photo, row.id);
  });
}

function update(box, row) {
  const parts = cards.get(box);
  const photos = photosOf(row.id).length;
  const sending = uploads.get(row.id);
  setText(parts.title, row.name);
  setText(
    parts.total,
    sending
      ? `Adding ${sending.done + 1 > sending.total ? sending.total : sending.done + 1} of ${sending.total}…`
      : count(photos, "photo"),
  );
  show(parts.progress, Boolean(sending));
  parts.progress.max = sending?.total ?? 1;
  parts.progress.value = sending?.done ?? 0;
  parts.progress.setAttribute("aria-label", `Adding photos to ${row.name}`);
  parts.edit.setAttribute("aria-label", `Rename ${row.name}`);
  parts.bin.setAttribute("aria-label", `Delete ${row.name}`);
  parts.pick.setAttribute("aria-label", `Add photos to ${row.name}`);
  parts.record.setAttribute("aria-label", `Camera for ${row.name}`);
  showPhotos(parts.list, row.id, row.name, parts.limit);
  show(parts.list, photos > 0);
  setText(parts.all, parts.limit === FEW ? `Show all ${photos}` : "Show fewer");
  parts.all.setAttribute("aria-label", `${parts.all.textContent} of ${row.name}`);
  show(parts.all, photos > FEW);
  const text =
    photos === 0
      ? "Drop photos here, paste them, or use the camera."
      : `${count(ENOUGH - photos, "more photo")} would be a good start.`;
  setText(parts.hint, text);
  parts.hint.classList.toggle("empty", photos === 0);
  show(parts.hint, photos < ENOUGH && !sending);
}

function draw() {
  keyed(byId("classes"), state.classes, card, update);
  show(byId("photos-empty"), state.classes.length < 2);
}

/** Adds each folder to the class of its name, which is created if needed; single files need a class. */
async function dropped(transfer) {
  const { files, folders } = await unpack(transfer);
  for (const folder of folders) {
    await attempt(async () => {
      const row =
        state.classes.find((other) => other.name === folder.name.trim()) ?? (await addClass(folder.name));
      await addPhotos(row.id, folder.files);
    });
  }
  if (!files.length) return;
  if (state.classes.length) notify("These photos need a class.", "Drop them on a class.");
  else
    notify(
      "These photos need a class.",
      "Create one first, then drop the photos on it. Or drop a folder, which becomes a class.",
    );
}

/** Adds photos of the clipboard to the class that was used last. */
export function addPasted(files) {
  const target = state.classes.find((row) => row.id === state.activeClass) ?? state.classes[0];
  if (target) return addPhotos(target.id, files);
  return notify("The pasted photo needs a class.", "Create one first, then paste again.");
}

export function setUpClasses() {
  byId("new-class").addEventListener("submit", (event) => {
    event.preventDefault();
    const field = byId("new-name");
    const name = field.value.trim();
    if (!name) {
      notify("A class needs a name.", "Type a name, such as “my cup”.");
      return field.focus();
    }
    return attempt(async () => {
      await addClass(name);
      field.value = "";
      announce(`Class ${name} added. Add photos of it.`);
    });
  });
  dropTarget(byId("photos"), dropped);
  on("classes photos uploads", draw);
}
