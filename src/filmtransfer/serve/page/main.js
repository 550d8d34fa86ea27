// The start of the page: sign in, load the data, and handle a lost connection.

import { announce } from "./announce.js";
import * as api from "./api.js";
import { setUpAssessment } from "./assessment.js";
import { addPasted, setUpClasses } from "./classes.js";
import { onConnection } from "./connection.js";
import { byId, focusOn, h, setText, show } from "./dom.js";
import { attempt, clearNotices, setUpNotices } from "./notice.js";
import { classify, setUpPredict } from "./predict.js";
import { setUpProjects } from "./projects.js";
import { load, state } from "./state.js";
import { setUpTheme } from "./theme.js";
import { forgetToken, keepToken, readTokenFromAddress, token } from "./token.js";
import { setUpTrain } from "./train.js";
import { setUpUsage } from "./usage.js";
import { setUpVersions } from "./versions.js";

const SCREENS = ["sign-in", "loading", "work", "deleted"];

function screen(name) {
  SCREENS.forEach((other) => show(byId(other), other === name));
  show(byId("skips"), name === "work"); // elsewhere there is nothing to skip
  if (name !== "work") setText(byId("who"), "");
}

function askForToken(message = "", hint = "") {
  if (!byId("deleted").hidden) return; // the account was just deleted
  document.querySelectorAll("dialog").forEach((box) => box.close());
  document
    .querySelectorAll("video")
    .forEach((video) => video.srcObject?.getTracks().forEach((track) => track.stop()));
  forgetToken();
  clearNotices();
  screen("sign-in");
  byId("sign-in-error").replaceChildren(...(message ? [h("b", {}, message), " ", hint] : []));
  byId("token").value = "";
  byId("token").focus();
}

async function enter() {
  screen("loading");
  try {
    await load();
  } catch (error) {
    if (error.status === 401) return; // onUnknownToken shows the sign-in form
    if (error.status === 0) return; // onConnection enters again
    if (error.status === 403)
      return askForToken("This is the administrator's token.", "Use the token of a user.");
    return askForToken(error.message, error.hint);
  }
  screen("work");
  setText(byId("who"), `Signed in as ${state.me.name}`);
}

function setUpSignIn() {
  byId("sign-in-form").addEventListener("submit", (event) => {
    event.preventDefault();
    const text = byId("token").value.trim();
    if (!text) return setText(byId("sign-in-error"), "Paste the token first.");
    // A complete link is accepted as well.
    keepToken(text.includes("#token=") ? text.split("#token=")[1] : text);
    return enter().then(() => !byId("work").hidden && focusOn(byId("main")));
  });
  api.onUnknownToken((error) => askForToken(error.message, error.hint));
}

function setUpConnection() {
  const banner = byId("offline");
  onConnection(async (alive) => {
    if (!alive) {
      setText(
        banner,
        "The service does not respond. Nothing that was saved is lost; the page continues when the service is back.",
      );
      show(banner, true);
      return;
    }
    show(banner, false);
    announce("The service is back.");
    if (byId("work").hidden) {
      if (token() && byId("deleted").hidden) await enter();
    } else await attempt(load);
  });
}

function setUpPaste() {
  document.addEventListener("paste", (event) => {
    const files = [...(event.clipboardData?.files ?? [])];
    if (!files.length || byId("work").hidden) return;
    event.preventDefault();
    if (byId("try").contains(document.activeElement)) classify(files[0]);
    else addPasted(files);
  });
}

/** A file that is dropped outside all targets must not replace the page. */
function setUpStrayDrops() {
  for (const kind of ["dragover", "drop"]) document.addEventListener(kind, (event) => event.preventDefault());
}

readTokenFromAddress();
setUpTheme();
setUpNotices();
setUpConnection();
setUpSignIn();
setUpPaste();
setUpStrayDrops();
setUpProjects();
setUpClasses();
setUpTrain();
setUpPredict();
setUpAssessment();
setUpVersions();
setUpUsage(() => screen("none"));
window.addEventListener("hashchange", () => {
  if (!location.hash.startsWith("#token=")) return;
  readTokenFromAddress();
  enter();
});
if (token()) enter();
else askForToken();
