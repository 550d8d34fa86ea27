// A form that takes the place of a name until the new one is saved.

import { h, show } from "./dom.js";
import { attempt } from "./notice.js";

/**
 * Replaces the element `shown` by a text field with `name`. `save(name)` stores another name; afterwards, or
 * when the name stays, `shown` is back and `button` has the focus. `button()` is called late: it may be new.
 */
export function renameInPlace({ id, name, shown, save, button }) {
  const field = h("input", { id, value: name, maxlength: "100", autocomplete: "off" });
  const form = h(
    "form",
    { class: "row rename" },
    h("label", { for: id, class: "visually-hidden" }, `New name for ${name}`),
    field,
    h("button", { class: "primary" }, "Save"),
  );
  const place = h("div", { class: "grow" }, form);
  let finished = false;
  function finish(focus) {
    if (finished) return;
    finished = true;
    place.remove();
    show(shown, true);
    if (focus) button()?.focus();
  }
  form.addEventListener("submit", async (event) => {
    event.preventDefault();
    const text = field.value.trim();
    if (!text || text === name) return finish(true);
    if (await attempt(() => save(text), { after: form, field })) return finish(true);
    return field.focus();
  });
  form.addEventListener("keydown", (event) => {
    if (event.key !== "Escape") return;
    event.preventDefault(); // a dialog around it stays open
    finish(true);
  });
  form.addEventListener(
    "focusout",
    (event) => !form.contains(event.relatedTarget) && field.value.trim() === name && finish(false),
  );
  show(shown, false);
  shown.before(place);
  field.focus();
  field.select();
}
