// The versions of the classifier: take home, use, delete and upload.

import { announce } from "./announce.js";
import * as api from "./api.js";
import { confirmed } from "./dialog.js";
import { byId, focusOn, h, keyed, setText, show } from "./dom.js";
import { downloads } from "./downloads.js";
import { picker } from "./files.js";
import { count, dateTime, size } from "./format.js";
import { icon } from "./icons.js";
import { attempt } from "./notice.js";
import { loadVersions, on, state } from "./state.js";

const parts = {};
const name = (version) => `Version ${version.number}`;
const where = () => ({ after: parts.upload }); // messages about versions
const title = (number) => byId("versions-list").querySelector(`[data-key="${number}"] h3`);

async function use(version) {
  await attempt(async () => {
    await api.makeCurrent(version.number);
    await loadVersions();
    announce(`${name(version)} is in use now.`);
    focusOn(title(version.number));
  }, where());
}

async function remove(version) {
  const text = `${name(version)} will be deleted. Your photos remain. This cannot be undone.`;
  if (!(await confirmed({ title: `Delete ${name(version).toLowerCase()}?`, text, yes: "Delete version" })))
    return;
  const next = state.versions[state.versions.findIndex((other) => other.number === version.number) + 1];
  await attempt(async () => {
    await api.removeVersion(version.number);
    await loadVersions();
    announce(`${name(version)} deleted.`);
    focusOn(title(next?.number) ?? byId("versions-title"));
  }, where());
}

async function upload(file) {
  if (!file) return;
  await attempt(
    async () => {
      const version = await api.upload(file);
      await loadVersions();
      announce(`${file.name} is ${name(version).toLowerCase()} now, and in use.`);
      focusOn(title(version.number));
    },
    { ...where(), about: `${file.name} could not be uploaded` },
  );
}

const kind = (version) =>
  ({ first: "first classifier", tuned: "fine-tuned" })[version.stage] ??
  (version.source === "uploaded" ? "uploaded" : "trained");

function describe(version) {
  const counts = Object.values(version.classes);
  const photos = counts.reduce((sum, n) => sum + n, 0);
  const { estimate } = version;
  const accuracy = estimate && `${estimate.percentage} accuracy on ${count(estimate.images, "photo")}`;
  return [
    kind(version),
    accuracy,
    counts.length && count(counts.length, "class", "classes"),
    photos && count(photos, "photo"),
    size(version.bytes),
  ]
    .filter(Boolean)
    .join(" · ");
}

function item(version) {
  const again = h(
    "button",
    {
      type: "button",
      class: "use",
      "aria-label": `Use ${name(version).toLowerCase()}`,
      onclick: () => use(version),
    },
    icon("restore"),
    "Use",
  );
  const id = `downloads-${version.number}`;
  const take = h(
    "button",
    {
      type: "button",
      class: "take",
      "aria-expanded": "false",
      "aria-label": `Download ${name(version).toLowerCase()}`,
    },
    "Download",
    icon("down"),
  );
  const bin = h(
    "button",
    {
      type: "button",
      class: "quiet square delete",
      "aria-label": `Delete ${name(version).toLowerCase()}`,
      onclick: () => remove(version),
    },
    icon("bin"),
  );
  const box = h(
    "li",
    { class: "version" },
    h(
      "div",
      { class: "grow" },
      h("h3", { tabindex: "-1" }, name(version), " ", h("span", { class: "badge" }, "in use")),
      h("p", {}, describe(version)),
      h("p", { class: "soft" }, dateTime(version.created)),
    ),
    h("div", { class: "row" }, take, again, bin),
  );
  take.addEventListener("click", () => {
    const open = byId(id);
    if (open) open.remove();
    else box.append(downloads(version, id));
    take.setAttribute("aria-expanded", String(!open));
  });
  return box;
}

function update(element, version) {
  element.classList.toggle("current", version.current);
  show(element.querySelector(".badge"), version.current);
  show(element.querySelector(".use"), !version.current);
  show(element.querySelector(".delete"), !version.current);
}

function draw() {
  keyed(
    parts.list,
    state.versions.map((version) => ({ ...version, id: String(version.number) })),
    item,
    update,
  );
  show(parts.list, state.versions.length > 0);
  setText(
    parts.text,
    state.versions.length
      ? "Each is a small file that contains the classifier and the features of your photos, but not the photos themselves. Take it home in the form you need, use an earlier one again, or share it with people you trust."
      : "Each training creates a version: a small file that contains the classifier and the features of your photos, but not the photos themselves.",
  );
}

export function setUpVersions() {
  parts.text = h("p", { class: "soft" });
  parts.list = h("ul", { id: "versions-list", class: "versions card", role: "list", hidden: true });
  const [button, input] = picker({
    label: [icon("upload"), "Upload a version"],
    accept: ".safetensors",
    multiple: false,
    chosen: ([file]) => upload(file),
  });
  input.id = "upload-file";
  parts.upload = h("div", { class: "row" }, button, input);
  byId("versions-body").append(parts.text, parts.list, parts.upload);
  on("versions", draw);
}
