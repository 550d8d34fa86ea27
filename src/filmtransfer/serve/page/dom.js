// Elements made from values. Text stays text: no string is ever parsed as markup,
// so a class may be called <b> and is shown as <b>.

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

/** Shows or hides, and says whether it changed anything. */
export function show(element, visible) {
  const changed = element.hidden === visible;
  element.hidden = !visible;
  return changed;
}

/** Sets text only when it differs, so that nothing is read out twice. */
export function say(element, text) {
  if (element.textContent !== text) element.textContent = text;
}

/**
 * Makes the children of `parent` follow `items`, one for each id, in their order.
 * Those that stay are kept, so that the focus in them is never lost.
 */
export function keyed(parent, items, make, update = () => {}) {
  const wanted = new Set(items.map((item) => item.id));
  const old = new Map();
  for (const child of [...parent.children]) {
    if (wanted.has(child.dataset.key)) old.set(child.dataset.key, child);
    else child.remove();
  }
  let at = parent.firstElementChild;
  for (const item of items) {
    const child = old.get(item.id) ?? make(item);
    child.dataset.key = item.id;
    if (child === at) at = at.nextElementSibling;
    else parent.insertBefore(child, at);
    update(child, item);
  }
}

/** Leaves the focus somewhere sensible when what had it is about to go. */
export function focusOn(element) {
  if (!element) return;
  if (element.tabIndex < 0 && !element.hasAttribute("tabindex")) element.setAttribute("tabindex", "-1");
  element.focus();
}
