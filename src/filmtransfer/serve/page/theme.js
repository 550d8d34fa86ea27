// Light or dark colours: the choice of the system, unless the user makes another.

import { byId, h } from "./dom.js";
import { icon } from "./icons.js";

const KEY = "filmtransfer.theme";
const system = matchMedia("(prefers-color-scheme: dark)");
const dark = () => (localStorage.getItem(KEY) ?? (system.matches ? "dark" : "light")) === "dark";

function apply() {
  const chosen = localStorage.getItem(KEY);
  if (chosen) document.documentElement.dataset.theme = chosen;
  const button = byId("theme");
  button.replaceChildren(icon(dark() ? "sun" : "moon"), h("span", {}, dark() ? "Light" : "Dark"));
  button.setAttribute("aria-label", dark() ? "Use light colours" : "Use dark colours");
}

export function setUpTheme() {
  byId("theme").addEventListener("click", () => {
    localStorage.setItem(KEY, dark() ? "light" : "dark");
    apply();
  });
  system.addEventListener("change", apply);
  apply();
}
