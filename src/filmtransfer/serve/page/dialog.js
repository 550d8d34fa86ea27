// A question before something that cannot be undone, in words. The browser's own <dialog> keeps the
// focus inside and gives it back; the safe answer has the focus first.

import { h } from "./dom.js";

let number = 0;

/** Opens a dialog with `body`, calls `closed` when it is gone. Returns the element. */
export function open({ title, body, buttons, className = "", closed = () => {} }) {
  number += 1;
  const id = `dialog-${number}`;
  const box = h(
    "dialog",
    { class: `dialog ${className}`, "aria-labelledby": id },
    h("h2", { id }, title),
    body,
    h("div", { class: "row end" }, buttons),
  );
  box.addEventListener("close", () => {
    box.remove();
    closed();
  });
  box.addEventListener("click", (event) => {
    if (event.target === box) box.close(); // beside the box
  });
  document.body.append(box);
  box.showModal();
  return box;
}

/** True if the person says yes. */
export function confirmed({ title, text, yes, no = "Keep it" }) {
  return new Promise((resolve) => {
    let answer = false;
    const keep = h("button", { type: "button", autofocus: true, onclick: () => box.close() }, no);
    const go = h("button", { type: "button", class: "danger" }, yes);
    const box = open({ title, body: h("p", {}, text), buttons: [keep, go], closed: () => resolve(answer) });
    go.addEventListener("click", () => {
      answer = true;
      box.close();
    });
    keep.focus();
  });
}
