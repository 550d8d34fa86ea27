// DOM elements from values. No string is ever parsed as markup, so a class may be called <b>.

const SVG = "http://www.w3.org/2000/svg";

function fill(element, props, children) {
  for (const [name, value] of Object.entries(props ?? {})) {
    if (value === undefined || value === null || value === false) continue;
    if (name.startsWith("on")) element.addEventListener(name.slice(2), value);
    else element.setAttribute(name, value === true ? "" : String(value));
  }
  element.append(
    ...children.flat().filter((child) => child !== null && child !== undefined && child !== false),
  );
  return element;
}

export const h = (tag, props, ...children) => fill(document.createElement(tag), props, children);
export const svg = (tag, props, ...children) => fill(document.createElementNS(SVG, tag), props, children);
export const byId = (id) => document.getElementById(id);

/** Shows or hides an element; returns whether that changed anything. */
export function show(element, visible) {
  const changed = element.hidden === visible;
  element.hidden = !visible;
  return changed;
}

/** Sets the text only if it differs, so that a screen reader does not repeat it. */
export function setText(element, text) {
  if (element.textContent !== text) element.textContent = text;
}

/**
 * Updates the children of `parent` to one for each item, in the order of `items`.
 * Elements whose item stays are kept, so that they do not lose the focus.
 */
export function keyed(parent, items, make, update = () => {}) {
  const ids = new Set(items.map((item) => item.id));
  const kept = new Map();
  for (const child of [...parent.children]) {
    if (ids.has(child.dataset.key)) kept.set(child.dataset.key, child);
    else child.remove();
  }
  let at = parent.firstElementChild;
  for (const item of items) {
    const child = kept.get(item.id) ?? make(item);
    child.dataset.key = item.id;
    if (child === at) at = at.nextElementSibling;
    else parent.insertBefore(child, at);
    update(child, item);
  }
}

/** Moves the focus to an element, which need not be focusable by itself. */
export function focusOn(element) {
  if (!element) return;
  if (element.tabIndex < 0 && !element.hasAttribute("tabindex")) element.setAttribute("tabindex", "-1");
  element.focus();
}
