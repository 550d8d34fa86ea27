// How much the service stores for a user, and the deletion of all of it.

import * as api from "./api.js";
import { confirmed } from "./dialog.js";
import { byId, focusOn, h, setText, show } from "./dom.js";
import { count, size } from "./format.js";
import { icon } from "./icons.js";
import { attempt } from "./notice.js";
import { on, state } from "./state.js";
import { forgetToken } from "./token.js";

const rows = {};

function meter(id, label) {
  const bar = h("meter", { id, min: "0" });
  const value = h("span", { class: "soft" });
  rows[id] = { bar, value };
  return h("div", { class: "meter" }, h("label", { for: id }, label), value, bar);
}

function fill(id, used, limit, format) {
  Object.assign(rows[id].bar, { max: limit, high: 0.8 * limit, value: used });
  setText(rows[id].value, `${format(used)} of ${format(limit)}`);
}

function draw() {
  const { quota } = state.me;
  const number = (n) => n.toLocaleString("en");
  const bytes = [...state.photos, ...state.versions].reduce((sum, item) => sum + item.bytes, 0);
  fill("used-classes", state.classes.length, quota.classes, number);
  fill("used-photos", state.photos.length, quota.photos, number);
  fill("used-versions", state.versions.length, quota.versions, number);
  fill("used-bytes", bytes, quota.bytes, size);
}

async function deleteEverything(hidePage) {
  const text = `This deletes ${count(state.classes.length, "class", "classes")}, ${count(state.photos.length, "photo")} and ${count(state.versions.length, "version")}, and your access to the service. This cannot be undone. Download a version first if you want to keep the classifier.`;
  if (
    !(await confirmed({ title: "Delete everything?", text, yes: "Delete everything", no: "Keep everything" }))
  )
    return;
  await attempt(async () => {
    await api.deleteMe();
    forgetToken();
    hidePage();
    show(byId("deleted"), true);
    focusOn(byId("deleted-title"));
  });
}

/** `hidePage` hides the rest of the page. */
export function setUpUsage(hidePage) {
  byId("usage-body").append(
    h("p", { class: "soft" }, "What the service stores for you. Other users cannot see it."),
    h(
      "div",
      { class: "card stack" },
      meter("used-photos", "Photos"),
      meter("used-classes", "Classes"),
      meter("used-versions", "Versions"),
      meter("used-bytes", "Space"),
    ),
    h(
      "div",
      { class: "row" },
      h(
        "button",
        { type: "button", class: "danger", onclick: () => deleteEverything(hidePage) },
        icon("bin"),
        "Delete everything…",
      ),
    ),
  );
  on("me classes photos versions", () => state.me && draw());
}
