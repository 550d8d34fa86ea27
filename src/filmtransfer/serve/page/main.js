// The page's beginning: who is it, what is there, and what happens when the service goes away.

import { announce } from "./announce.js";
import * as api from "./api.js";
import { setUpCheck } from "./check.js";
import { pasted, setUpClasses } from "./classes.js";
import { onConnection } from "./connection.js";
import { setUpData } from "./data.js";
import { byId, focusOn, say, show } from "./dom.js";
import { attempt, clearNotice, setUpNotice } from "./notice.js";
import { ask, setUpPredict } from "./predict.js";
import { load, state } from "./state.js";
import { setUpTheme } from "./theme.js";
import { forgetToken, keepToken, takeFromAddress, token } from "./token.js";
import { resumeTraining, setUpTrain } from "./train.js";
import { setUpVersions } from "./versions.js";

const SCREENS = ["door", "loading", "work", "farewell"];
const screen = (name) => SCREENS.forEach((other) => show(byId(other), other === name));

function askForToken(message = "") {
  if (!byId("farewell").hidden) return; // it ended here on purpose
  document.querySelectorAll("dialog").forEach((box) => box.close());
  document
    .querySelectorAll("video")
    .forEach((video) => video.srcObject?.getTracks().forEach((track) => track.stop()));
  forgetToken();
  clearNotice();
  screen("door");
  say(byId("door-error"), message);
  byId("token").value = "";
  byId("token").focus();
}

async function enter() {
  screen("loading");
  try {
    await load();
  } catch (problem) {
    if (problem.status === 401) return; // the door is open already
    if (problem.status === 0) return; // the connection brings it back
    if (problem.status === 403)
      return askForToken("This is the administrator's token. Use the token of a user.");
    return askForToken(`${problem.message} ${problem.hint}`);
  }
  say(byId("who"), `Signed in as ${state.me.name}`);
  screen("work");
  await attempt(resumeTraining);
}

function setUpDoor() {
  byId("door-form").addEventListener("submit", (event) => {
    event.preventDefault();
    const text = byId("token").value.trim();
    if (!text) return say(byId("door-error"), "Paste the token first.");
    // A whole link is welcome too.
    keepToken(text.includes("#token=") ? text.split("#token=")[1] : text);
    return enter().then(() => !byId("work").hidden && focusOn(byId("main")));
  });
  api.onUnknownToken((problem) => askForToken(`${problem.message} ${problem.hint}`));
}

function setUpConnection() {
  const band = byId("offline");
  onConnection(async (alive) => {
    if (!alive) {
      say(
        band,
        "The service does not answer. Nothing that was saved is lost; the page goes on by itself when it is back.",
      );
      show(band, true);
      return;
    }
    show(band, false);
    announce("The service is back.");
    if (byId("work").hidden) {
      if (token() && byId("farewell").hidden) await enter();
    } else await attempt(load);
  });
}

function setUpPaste() {
  document.addEventListener("paste", (event) => {
    const files = [...(event.clipboardData?.files ?? [])];
    if (!files.length || byId("work").hidden) return;
    event.preventDefault();
    if (byId("try").contains(document.activeElement)) ask(files[0]);
    else pasted(files);
  });
}

/** A file dropped beside every target must not replace the page. */
function setUpStrayDrops() {
  for (const kind of ["dragover", "drop"]) document.addEventListener(kind, (event) => event.preventDefault());
}

takeFromAddress();
setUpTheme();
setUpNotice();
setUpConnection();
setUpDoor();
setUpPaste();
setUpStrayDrops();
setUpClasses();
setUpTrain();
setUpPredict();
setUpCheck();
setUpVersions();
setUpData(() => screen("none"));
window.addEventListener("hashchange", () => {
  if (!location.hash.startsWith("#token=")) return;
  takeFromAddress();
  enter();
});
if (token()) enter();
else askForToken();
