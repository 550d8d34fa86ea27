// How much the service stores for a user; starting over, and deleting the account.

import { announce } from "./announce.js";
import * as api from "./api.js";
import { confirmed } from "./dialog.js";
import { byId, focusOn, h, setText, show } from "./dom.js";
import { count, size } from "./format.js";
import { icon } from "./icons.js";
import { attempt } from "./notice.js";
import { clearProject, load, on, state, usedHere } from "./state.js";
import { forgetToken } from "./token.js";

const rows = {};
const parts = {};

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
  const here = usedHere();
  const number = (n) => n.toLocaleString("en");
  for (const unit of ["photos", "classes", "versions", "bytes"])
    fill(`used-${unit}`, here[unit] + state.elsewhere[unit], quota[unit], unit === "bytes" ? size : number);
}

const everything = () =>
  state.projects.length > 1
    ? `all ${state.projects.length} projects with their classes, photos and versions`
    : `${count(state.classes.length, "class", "classes")}, ${count(state.photos.length, "photo")} and ${count(state.versions.length, "version")}`;
const advice = () =>
  `This cannot be undone.${state.versions.length ? " Download a version first if you want to keep the classifier." : ""}`;

async function startOver() {
  const text = `This deletes ${everything()}. Your access stays: the same link opens this page again. ${advice()}`;
  if (!(await confirmed({ title: "Start over?", text, yes: "Delete and start over", no: "Keep everything" })))
    return;
  await attempt(
    async () => {
      try {
        await api.deleteData();
      } finally {
        await load(); // an error may come after everything was deleted
      }
      announce("Everything is deleted. You have a new, empty project.");
      focusOn(byId("main"));
      scrollTo(0, 0);
    },
    { after: parts.acts },
  );
}

async function deleteAccount(hidePage) {
  const text = `This deletes your account: ${everything()}, your name and your access. Your link will not work any more. ${advice()}`;
  if (
    !(await confirmed({
      title: "Delete your account?",
      text,
      yes: "Delete my account",
      no: "Keep my account",
    }))
  )
    return;
  await attempt(
    async () => {
      await api.deleteMe();
      forgetToken();
      clearProject();
      hidePage();
      show(byId("deleted"), true);
      focusOn(byId("deleted-title"));
    },
    { after: parts.acts },
  );
}

const act = (name, picture, text, onclick) =>
  h(
    "div",
    { class: "act" },
    h("button", { type: "button", class: "danger", onclick }, icon(picture), `${name}…`),
    h("p", { class: "soft" }, text),
  );

/** `hidePage` hides the rest of the page. */
export function setUpUsage(hidePage) {
  parts.acts = h(
    "div",
    { class: "stack" },
    act("Start over", "restore", "Deletes all projects, photos and versions. You keep your access.", startOver),
    act("Delete my account", "bin", "Deletes the same, and your access as well.", () =>
      deleteAccount(hidePage),
    ),
  );
  byId("usage-body").append(
    h("p", { class: "soft" }, "What the service stores for you in all projects. Other users cannot see it."),
    h(
      "div",
      { class: "card stack" },
      meter("used-photos", "Photos"),
      meter("used-classes", "Classes"),
      meter("used-versions", "Versions"),
      meter("used-bytes", "Space"),
    ),
    parts.acts,
  );
  on("me classes photos versions", () => state.elsewhere && draw());
}
