// Files that are dropped, chosen or pasted.

import { h } from "./dom.js";

export const looksLikeImage = (file) =>
  file.type.startsWith("image/") || /\.(heic|heif|avif|jpe?g|png|webp|gif|bmp|tiff?)$/i.test(file.name);

/** A button that opens the file picker, and the hidden input behind it. */
export function picker({ label, accept = "image/*,.heic,.heif", multiple = true, className = "", chosen }) {
  const input = h("input", {
    type: "file",
    accept,
    multiple,
    hidden: true,
    tabindex: "-1",
    "aria-hidden": "true",
  });
  const button = h("button", { type: "button", class: className, onclick: () => input.click() }, label);
  input.addEventListener("change", () => {
    chosen([...input.files]);
    input.value = ""; // so that the same file can be chosen again
  });
  return [button, input];
}

/** Accepts files that are dropped on an element; other drags (a photo of this page) are ignored. */
export function dropTarget(element, dropped) {
  const hasFiles = (event) => [...(event.dataTransfer?.types ?? [])].includes("Files");
  let depth = 0;
  const highlight = (on) => element.classList.toggle("over", on);
  element.addEventListener("dragenter", (event) => {
    if (!hasFiles(event)) return;
    depth += 1;
    highlight(true);
  });
  element.addEventListener("dragleave", (event) => {
    if (!hasFiles(event)) return;
    depth -= 1;
    if (depth <= 0) highlight(false);
  });
  element.addEventListener("dragover", (event) => {
    if (hasFiles(event)) event.preventDefault();
  });
  element.addEventListener("drop", (event) => {
    if (!hasFiles(event)) return;
    event.preventDefault();
    event.stopPropagation();
    depth = 0;
    highlight(false);
    dropped(event.dataTransfer);
  });
}

function entries(folder) {
  const reader = folder.createReader();
  const batch = () => new Promise((resolve, reject) => reader.readEntries(resolve, reject));
  return (async () => {
    const all = [];
    for (let some = await batch(); some.length; some = await batch()) all.push(...some); // a batch has at most 100
    return all;
  })();
}

const fileOf = (entry) => new Promise((resolve, reject) => entry.file(resolve, reject));

async function imagesIn(folder) {
  const images = [];
  for (const entry of await entries(folder)) {
    if (entry.isDirectory) images.push(...(await imagesIn(entry)));
    else {
      const file = await fileOf(entry);
      if (looksLikeImage(file)) images.push(file);
    }
  }
  return images;
}

/** The dropped files, and the dropped folders with the images in them. */
export async function unpack(transfer) {
  const all = [...transfer.items]
    .filter((item) => item.kind === "file")
    .map((item) => [item.webkitGetAsEntry?.(), item.getAsFile()]);
  const files = all.filter(([entry]) => !entry?.isDirectory).map(([, file]) => file);
  const folders = [];
  for (const [entry] of all) {
    if (entry?.isDirectory) folders.push({ name: entry.name, files: await imagesIn(entry) });
  }
  return { files, folders };
}
