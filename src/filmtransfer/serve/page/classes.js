// Step 1: the classes and their photos, which are dropped, chosen, pasted or recorded.

import { announce } from "./announce.js";
import * as api from "./api.js";
import { confirmed } from "./dialog.js";
import { byId, focusOn, h, keyed, setText, show } from "./dom.js";
import { dropTarget, picker, unpack, unpackFolder } from "./files.js";
import { count } from "./format.js";
import { icon } from "./icons.js";
import { attempt, endNotice, notify } from "./notice.js";
import { PHOTO_TYPE, movePhoto, showPhotos } from "./photos.js";
import { onPointer, touch } from "./pointer.js";
import { recorder } from "./recorder.js";
import { renameInPlace } from "./rename.js";
import { projectId } from "./scope.js";
import { changed, on, photosOf, state } from "./state.js";
import { addPhotos, uploads } from "./upload.js";

const FEW = 15; // photos shown before "Show all"
const ENOUGH = 5; // photos of a class that are enough to start with
const cards = new WeakMap(); // the elements of each card

function showClass(row) {
  if (!state.classes.some((other) => other.id === row.id)) state.classes.push(row);
  state.activeClass = row.id;
  changed("classes");
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

async function renameClass(row, name) {
  const renamed = await api.renameClass(row.id, name);
  state.classes = state.classes.map((other) =>
    other.id === row.id ? { ...other, name: renamed.name } : other,
  );
  changed("classes", "photos");
  announce(`Renamed to ${renamed.name}.`);
}

function card(row) {
  const title = h("h3", { id: `class-${row.id}`, tabindex: "-1" });
  const total = h("p", { class: "soft" });
  const edit = h("button", { type: "button", class: "quiet square" }, icon("edit"));
  const bin = h("button", { type: "button", class: "quiet square" }, icon("bin"));
  const head = h("div", { class: "class-head" }, h("div", { class: "grow" }, title, total), edit, bin);
  const [pick, input] = picker({
    label: [icon("photos"), "Choose photos"],
    className: "add-photos",
    chosen: (files) => addPhotos(now(), files),
  });
  const record = h(
    "button",
    { type: "button", class: "record", "aria-expanded": "false" },
    icon("camera"),
    "Take photos",
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
    h("div", { class: "row", id: `add-to-${row.id}` }, pick, input, record),
    progress,
    list,
    all,
    hint,
  );
  cards.set(box, parts);

  const now = () => state.classes.find((other) => other.id === row.id);
  edit.addEventListener("click", () =>
    renameInPlace({
      id: `rename-${row.id}`,
      name: now().name,
      shown: head,
      save: (name) => renameClass(now(), name),
      button: () => edit,
    }),
  );
  bin.addEventListener("click", () => removeClass(now()));
  all.addEventListener("click", () => {
    parts.limit = parts.limit === FEW ? Infinity : FEW;
    update(box, now());
  });
  record.addEventListener("click", () => {
    if (parts.panel) return parts.panel.close();
    document.querySelectorAll(".recorder").forEach((other) => other.close());
    parts.panel = recorder(now(), () => {
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
    const [project, target] = [projectId(), now()];
    const { files, classes } = await unpack(transfer);
    await addPhotos(target, [...files, ...classes.flatMap((folder) => folder.files)], { project });
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
  parts.pick.setAttribute("aria-label", `Choose photos for ${row.name}`);
  parts.record.setAttribute("aria-label", `Take photos for ${row.name}`);
  showPhotos(parts.list, row.id, row.name, parts.limit);
  show(parts.list, photos > 0);
  setText(parts.all, parts.limit === FEW ? `Show all ${photos}` : "Show fewer");
  parts.all.setAttribute("aria-label", `${parts.all.textContent} of ${row.name}`);
  show(parts.all, photos > FEW);
  const how = touch.matches
    ? "Choose photos, or take them with the camera."
    : "Drop photos here, paste them, or use the camera.";
  const text =
    photos === 0
      ? how
      : `${count(ENOUGH - photos, "more photo")} would be a good start.`;
  setText(parts.hint, text);
  parts.hint.classList.toggle("empty", photos === 0);
  show(parts.hint, photos < ENOUGH && !sending);
}

function draw() {
  keyed(byId("classes"), state.classes, card, update);
  show(byId("photos-empty"), state.classes.length < 2);
  show(byId("sample"), state.classes.length === 0);
}

/**
 * Adds each folder to the class of its name in a project, which is created if needed. That goes on when another
 * project is shown.
 */
async function addFolders({ classes, outside }, project) {
  const where = () => ({ after: project === projectId() ? byId("new-class") : null });
  for (const folder of classes) {
    const added = await attempt(
      async () => {
        const row = await api.findOrAddClass(project, folder.name.trim());
        if (project === projectId()) showClass(row);
        await addPhotos(row, folder.files, { project });
      },
      { ...where(), about: `The folder “${folder.name}” could not be added` },
    );
    if (!added) return;
  }
  if (outside)
    notify(
      `${count(outside, "photo beside the subfolders was", "photos beside the subfolders were")} ignored.`,
      "Each subfolder is a class. Put every photo into one of them.",
      where(),
    );
  if (!classes.length)
    notify(
      "There are no photos in this folder.",
      "Choose a folder that has a subfolder of photos for each class.",
      where(),
    );
}

const needClass = (hint) =>
  notify("These photos need a class.", hint, {
    after: byId("new-class"),
    ends: () => state.classes.length > 0,
  });

/** Adds dropped folders; single files need a class. */
async function dropped(transfer) {
  const project = projectId();
  const { files, folders, ...inFolders } = await unpack(transfer);
  if (folders) await addFolders(inFolders, project);
  if (!files.length || project !== projectId()) return;
  if (state.classes.length)
    notify("These photos need a class.", "Drop them on a class.", { after: byId("new-class") });
  else needClass("Create one first, then drop the photos on it. Or drop a folder, which becomes a class.");
}

/** Adds photos of the clipboard to the class that was used last. */
export function addPasted(files) {
  const target = state.classes.find((row) => row.id === state.activeClass) ?? state.classes[0];
  if (target) return addPhotos(target, files);
  return needClass("Create one first, then paste again.");
}

function setUpNewClass() {
  const form = byId("new-class");
  const field = byId("new-name");
  const where = { after: form.querySelector(".row"), field };
  form.addEventListener("submit", async (event) => {
    event.preventDefault();
    const name = field.value.trim();
    if (!name) notify("A class needs a name.", "Type a name, such as “my cup”.", where);
    else
      await attempt(async () => {
        showClass(await api.addClass(name));
        field.value = "";
        endNotice(form);
        announce(`Class ${name} added. Add photos of it.`);
      }, where);
    field.focus();
  });
}

function setUpFolders() {
  const [button, input] = picker({
    label: [icon("folder"), "Choose a folder"],
    folder: true,
    chosen: (files) => addFolders(unpackFolder(files), projectId()),
  });
  input.id = "folder-files";
  button.setAttribute("aria-describedby", "folder-help");
  const help = h("p", { class: "soft", id: "folder-help" }, "Each subfolder becomes a class.");
  const box = h("div", { class: "folder" }, button, input, help);
  byId("new-class").append(box);
  onPointer(() => show(box, !touch.matches && "webkitdirectory" in input));
}

export function setUpClasses() {
  setUpNewClass();
  setUpFolders();
  dropTarget(byId("photos"), dropped);
  on("classes photos uploads", draw);
  on("project", () => document.querySelectorAll(".recorder").forEach((panel) => panel.close()));
  touch.addEventListener("change", draw);
}
