// Dialogs. The <dialog> element keeps the focus inside and returns it; in a confirmation the safe button
// has the focus.

import { h } from "./dom.js";

let number = 0;

/** Opens a dialog with `body`; calls `closed` when it is closed. Returns the element. */
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
    if (event.target === box) box.close(); // outside the dialog
  });
  document.body.append(box);
  box.showModal();
  return box;
}

/** Asks for a confirmation; resolves to whether it was given. */
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
