// Everything the service keeps of a person: how much it is, and the way to end it.

import * as api from "./api.js";
import { confirmed } from "./dialog.js";
import { byId, focusOn, h, say, show } from "./dom.js";
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

function fill(id, used, most, write) {
  Object.assign(rows[id].bar, { max: most, high: 0.8 * most, value: used });
  say(rows[id].value, `${write(used)} of ${write(most)}`);
}

function draw() {
  const { quota } = state.me;
  const plain = (n) => n.toLocaleString("en");
  const bytes = [...state.photos, ...state.versions].reduce((sum, thing) => sum + thing.bytes, 0);
  fill("used-classes", state.classes.length, quota.classes, plain);
  fill("used-photos", state.photos.length, quota.photos, plain);
  fill("used-versions", state.versions.length, quota.versions, plain);
  fill("used-bytes", bytes, quota.bytes, size);
}

async function deleteEverything(leave) {
  const text = `This deletes ${count(state.classes.length, "class", "classes")}, ${count(state.photos.length, "photo")} and ${count(state.versions.length, "version")}, and your access to the service. Nothing is kept, and it cannot be undone. Download a version first if you want to keep what was learned.`;
  if (
    !(await confirmed({ title: "Delete everything?", text, yes: "Delete everything", no: "Keep everything" }))
  )
    return;
  await attempt(async () => {
    await api.deleteMe();
    forgetToken();
    leave();
    show(byId("farewell"), true);
    focusOn(byId("farewell-title"));
  });
}

/** `leave` puts the rest of the page away. */
export function setUpData(leave) {
  byId("data-body").append(
    h("p", { class: "soft" }, "What the service keeps for you. Nobody else who uses it can see any of it."),
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
        { type: "button", class: "danger", onclick: () => deleteEverything(leave) },
        icon("bin"),
        "Delete everything…",
      ),
    ),
  );
  on("me classes photos versions", () => state.me && draw());
}
