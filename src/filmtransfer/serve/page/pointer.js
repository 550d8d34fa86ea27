// What the pointer can do: with a finger nothing can be dropped, and phones have no folders to choose.

export const touch = matchMedia("(pointer: coarse)");

/** Calls `listener` now and when the pointer changes, as when a mouse is connected. */
export function onPointer(listener) {
  touch.addEventListener("change", listener);
  listener();
}
