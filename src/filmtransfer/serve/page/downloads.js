// What can be taken home of a version: each kind of file, with a few words on how it is used.

import { announce } from "./announce.js";
import * as api from "./api.js";
import { h, setText } from "./dom.js";
import { size } from "./format.js";
import { icon } from "./icons.js";
import { attempt } from "./notice.js";
import { projectId } from "./scope.js";

const KINDS = [
  {
    kind: "file",
    title: "Classifier",
    text: "The small file for the command and for Python. It can be uploaded here again.",
    command: (name) => `fit predict ${name} photo.jpg`,
  },
  {
    kind: "onnx",
    title: "ONNX",
    spoken: "ONNX",
    text: "Everything in one file, for other programs: onnxruntime runs it on servers, phones and in browsers.",
  },
  {
    kind: "web",
    title: "Web page",
    text: "A page that classifies photos in the browser; none leaves the device. Unpack it, then:",
    command: () => "python3 -m http.server 8080 --bind 127.0.0.1 --directory classifier",
  },
  {
    kind: "report",
    title: "Report",
    text: "The accuracy, the mistakes and small pictures of your photos. Open it in a browser.",
  },
];

function save(blob, name) {
  const url = URL.createObjectURL(blob);
  const link = h("a", { href: url, download: name });
  document.body.append(link);
  link.click();
  link.remove();
  setTimeout(() => URL.revokeObjectURL(url), 60_000);
}

function item({ kind, title, spoken = title.toLowerCase(), text, command }, { number, files }) {
  const what = `${spoken} of version ${number}`;
  const name = files[kind];
  const label = h("span", {}, "Download");
  const button = h(
    "button",
    { type: "button", "aria-label": `Download the ${what}` },
    icon("download"),
    label,
  );
  const head = h("p", {}, h("b", {}, title), " ", h("span", { class: "soft" }, name));
  const words = h("div", { class: "grow" }, head, h("p", { class: "soft" }, text));
  if (command) words.append(h("code", {}, command(name)));
  const last = words.lastElementChild;
  let busy = false;
  button.addEventListener("click", async () => {
    if (busy) return;
    busy = true;
    setText(label, "Preparing…");
    button.setAttribute("aria-disabled", "true");
    announce(`${title} of version ${number} is being prepared.`);
    const project = projectId();
    await attempt(
      async () => {
        const blob = await api.download(project, number, kind);
        save(blob, name);
        announce(`${title} of version ${number} downloaded, ${size(blob.size)}.`);
      },
      { after: last, about: `The ${what} could not be downloaded` },
    );
    busy = false;
    setText(label, "Download");
    button.removeAttribute("aria-disabled");
  });
  return h("li", {}, words, button);
}

/** The list of all kinds for a version. */
export const downloads = (version, id) =>
  h(
    "ul",
    { id, class: "downloads", role: "list", "aria-label": `Downloads of version ${version.number}` },
    KINDS.map((kind) => item(kind, version)),
  );
