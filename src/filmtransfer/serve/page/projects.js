// The projects of a user: a dialog to open, create, rename and delete them, and the sample project.

import { announce } from "./announce.js";
import * as api from "./api.js";
import * as dialog from "./dialog.js";
import { byId, focusOn, h, keyed, setText, show } from "./dom.js";
import { count } from "./format.js";
import { icon } from "./icons.js";
import { attempt, notify } from "./notice.js";
import { renameInPlace } from "./rename.js";
import { projectId, rememberProject } from "./scope.js";
import { load, on, openProject, shownProject, state, usedHere } from "./state.js";

const button = () => byId("project");
let box = null; // the open dialog
let list = null;

/** Shows a project and remembers it as the choice of the user. */
async function choose(project) {
  rememberProject(project.id);
  byId("work").setAttribute("aria-busy", "true");
  try {
    await openProject(project.id);
  } finally {
    byId("work").removeAttribute("aria-busy");
  }
  announce(`Project ${project.name} is open, ${contents(project)}.`);
}

function contents(project) {
  const { classes, photos } = project.id === projectId() ? usedHere() : project;
  return classes ? `${count(classes, "class", "classes")}, ${count(photos, "photo")}` : "no classes yet";
}

async function create(field, form) {
  const name = field.value.trim();
  const where = { after: form, field };
  if (!name) {
    notify("A project needs a name.", "Type a name, such as “my cups”.", where);
    return field.focus();
  }
  const created = await attempt(async () => {
    await choose(await api.addProject(name));
    box?.close();
  }, where);
  return created ? byId("new-name").focus() : field.focus();
}

/** Creates the project of sample drawings and opens it. */
async function addSample(where) {
  await attempt(async () => {
    const project = await api.addSample();
    await choose(project);
    box?.close();
    focusOn(byId("photos"));
  }, where);
}

async function remove(project) {
  const last = state.projects.length === 1 ? " A new, empty project takes its place." : "";
  const text = `The project “${project.name}” (${contents(project)}) will be deleted with all its versions. This cannot be undone.${last}`;
  if (!(await dialog.confirmed({ title: "Delete this project?", text, yes: "Delete project" }))) return;
  const at = state.projects.findIndex((other) => other.id === project.id);
  await attempt(async () => {
    await api.removeProject(project.id);
    await load();
    announce(`Project ${project.name} deleted.`);
    focusOn(list.children[Math.min(at, state.projects.length - 1)]?.querySelector("button"));
  });
}

function row(project) {
  const now = () => state.projects.find((other) => other.id === project.id);
  const open = h(
    "button",
    { type: "button", class: "quiet grow open" },
    h("span", { class: "name" }),
    h("span", { class: "soft" }),
  );
  const edit = h("button", { type: "button", class: "quiet square edit" }, icon("edit"));
  const bin = h("button", { type: "button", class: "quiet square bin" }, icon("bin"));
  const shown = h("div", { class: "row fixed" }, open, edit, bin);
  open.addEventListener("click", async () => {
    const project = now();
    box.close();
    if (project.id !== projectId()) await attempt(() => choose(project));
  });
  edit.addEventListener("click", () =>
    renameInPlace({
      id: `rename-${project.id}`,
      name: now().name,
      shown,
      save: async (name) => {
        const renamed = await api.renameProject(project.id, name);
        now().name = renamed.name;
        draw();
        announce(`Renamed to ${renamed.name}.`);
      },
      button: () => edit,
    }),
  );
  bin.addEventListener("click", () => remove(now()));
  return h("li", {}, shown);
}

function update(item, project) {
  const open = item.querySelector(".open");
  setText(open.querySelector(".name"), project.name);
  setText(open.querySelector(".soft"), contents(project));
  if (project.id === projectId()) open.setAttribute("aria-current", "true");
  else open.removeAttribute("aria-current");
  item.querySelector(".edit").setAttribute("aria-label", `Rename ${project.name}`);
  item.querySelector(".bin").setAttribute("aria-label", `Delete ${project.name}`);
}

function draw() {
  const project = shownProject();
  if (!project) return;
  setText(button().querySelector(".name"), project.name);
  button().setAttribute("aria-label", `Project ${project.name}, show all projects`);
  if (list) keyed(list, state.projects, row, update);
}

function newProject() {
  const id = "new-project";
  const field = h("input", { id, maxlength: "100", autocomplete: "off", placeholder: "my cups" });
  const line = h("div", { class: "row" }, field, h("button", { class: "primary" }, "Create"));
  const form = h("form", { class: "field" }, h("label", { for: id }, "Name of a new project"), line);
  form.addEventListener("submit", (event) => {
    event.preventDefault();
    create(field, line);
  });
  return form;
}

function openDialog() {
  list = h("ul", { class: "projects", role: "list" });
  const sample = h("button", { type: "button" }, icon("add"), "Add the sample project");
  const samples = h("div", { class: "row" }, sample);
  sample.addEventListener("click", () => addSample({ after: samples }));
  const close = h("button", { type: "button" }, "Close");
  box = dialog.open({
    title: "Projects",
    body: h("div", { class: "stack" }, list, newProject(), samples),
    buttons: [close],
    closed: () => {
      box = list = null;
    },
  });
  close.addEventListener("click", () => box.close());
  draw();
  list.querySelector("[aria-current]")?.focus();
}

export function setUpProjects() {
  button().append(h("span", { class: "name" }), icon("down"));
  button().addEventListener("click", openDialog);
  const sample = byId("sample");
  const start = h("button", { type: "button" }, icon("photos"), "Try it with sample drawings");
  sample.append(start, h("p", { class: "soft" }, "A project of its own, ready to train."));
  start.addEventListener("click", () => addSample({ after: sample }));
  on("projects classes photos", draw);
  show(sample, true);
}
