// Files and folders that are dropped, chosen or pasted.

import { h } from "./dom.js";

const looksLikeImage = (file) =>
  file.type.startsWith("image/") || /\.(heic|heif|avif|jpe?g|png|webp|gif|bmp|tiff?)$/i.test(file.name);

/** A button that opens the file picker, and the hidden input behind it. */
export function picker({
  label,
  accept = "image/*,.heic,.heif",
  multiple = true,
  folder = false,
  className = "",
  chosen,
}) {
  const input = h("input", {
    type: "file",
    accept: folder ? null : accept,
    multiple,
    webkitdirectory: folder,
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

/** The images in a dropped folder with their paths in it: {path: ["more", "9.png"], file}. */
async function imagesIn(folder, above = []) {
  const images = [];
  for (const entry of await entries(folder)) {
    const path = [...above, entry.name];
    if (entry.isDirectory) images.push(...(await imagesIn(entry, path)));
    else images.push({ path, file: await fileOf(entry) });
  }
  return images.filter(({ file }) => looksLikeImage(file));
}

/**
 * The classes in a folder: its subfolders, or the folder itself if its photos are not in several subfolders.
 * `outside` is the number of photos beside the subfolders, which belong to none of them.
 */
function classesIn(name, everything) {
  const inOrder = new Intl.Collator("en", { numeric: true }).compare; // browsers list folders in any order
  const images = everything
    .filter(({ path }) => !path.some((part) => part.startsWith("."))) // not hidden
    .sort((a, b) => inOrder(a.path.join("/"), b.path.join("/")));
  const beside = images.filter(({ path }) => path.length === 1);
  const inside = Map.groupBy(
    images.filter(({ path }) => path.length > 1),
    ({ path }) => path[0],
  );
  const files = (rows) => rows.map(({ file }) => file);
  if (inside.size > 1 || (inside.size === 1 && !beside.length))
    return {
      classes: [...inside].map(([folder, rows]) => ({ name: folder, files: files(rows) })),
      outside: beside.length,
    };
  return { classes: images.length ? [{ name, files: files(images) }] : [], outside: 0 };
}

const joined = (folders) => ({
  classes: folders.flatMap(({ classes }) => classes),
  outside: folders.reduce((sum, { outside }) => sum + outside, 0),
});

/** The classes in a folder that was chosen, from the files in it. */
export function unpackFolder(files) {
  const images = files.filter(looksLikeImage).map((file) => {
    const [root, ...path] = file.webkitRelativePath.split("/");
    return { root, path, file };
  });
  return joined([...Map.groupBy(images, ({ root }) => root)].map(([root, rows]) => classesIn(root, rows)));
}

/** The dropped files, and the classes in the dropped folders. */
export async function unpack(transfer) {
  const all = [...transfer.items]
    .filter((item) => item.kind === "file")
    .map((item) => [item.webkitGetAsEntry?.(), item.getAsFile()]);
  const files = all.filter(([entry]) => !entry?.isDirectory).map(([, file]) => file);
  const folders = [];
  for (const [entry] of all) {
    if (entry?.isDirectory) folders.push(classesIn(entry.name, await imagesIn(entry)));
  }
  return { files, folders: folders.length, ...joined(folders) };
}
