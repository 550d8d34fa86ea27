// The API of the service as functions. Every failure is a ServiceError with a message and a hint.

import { pause, reportLost, untilConnected } from "./connection.js";
import { projectId } from "./scope.js";
import { token } from "./token.js";

export class ServiceError extends Error {
  constructor({ status, code, message, hint = "", retry = null }) {
    super(message);
    Object.assign(this, { status, code, hint, retry });
  }
}

/** Whether the same request may succeed later: the connection was lost, or the service is busy. */
export const retryable = (error) => [0, 429, 503].includes(error.status);

/** Waits after such a failure until the request may be repeated. */
export const waitToRetry = ({ status, retry }) =>
  status === 0 ? untilConnected() : pause(1000 * (retry ?? 1));

const MESSAGES = {
  0: ["The service does not respond.", "Is it still running? The page tries again by itself."],
  401: [
    "The service does not know this link or token.",
    "The account may have been deleted, or its token replaced. Ask the person who runs the service for a new link; if you run it yourself, start “fit serve” again.",
  ],
  413: ["That file is too large.", "Try a smaller one."],
  429: ["Too many requests.", "Wait a moment and try again."],
  503: ["The service is busy.", "Wait a moment and try again."],
  507: ["The storage is full.", "Remove photos or earlier versions, and try again."],
};
let unknownToken = () => {};

/** Registers what to do when the token is unknown or no longer valid. */
export const onUnknownToken = (listener) => {
  unknownToken = listener;
};

function unreachable() {
  reportLost();
  const [message, hint] = MESSAGES[0];
  return new ServiceError({ status: 0, code: "unreachable", message, hint });
}

async function errorOf(response) {
  const detail = await response.json().then(
    (body) => body?.error ?? {},
    () => ({}),
  );
  const [message, hint] = MESSAGES[response.status] ?? ["The request failed.", "Try again in a moment."];
  const retry = Number(response.headers.get("Retry-After")) || null;
  const error = {
    status: response.status,
    code: detail.code,
    message: detail.message || message,
    hint,
    retry,
  };
  if (response.status === 401) error.message = message; // the service's own words are for programs
  else if (detail.message) error.hint = detail.hint || (response.status in MESSAGES ? hint : "");
  return new ServiceError(error);
}

async function request(method, path, { json, body, headers = {}, signal } = {}) {
  const all = { Authorization: `Bearer ${token()}`, ...headers };
  if (json !== undefined) {
    all["Content-Type"] = "application/json";
    body = JSON.stringify(json);
  } else if (body) all["Content-Type"] = body.type || "application/octet-stream";
  let response;
  try {
    response = await fetch(path, { method, body, headers: all, signal, cache: "no-store" });
  } catch (error) {
    if (error.name === "AbortError") throw error;
    throw unreachable();
  }
  if (response.ok) return response;
  const error = await errorOf(response);
  if (response.status === 401) unknownToken(error);
  throw error;
}

const json = (response) => response.json();
const read = async (...args) => json(await request(...args));
const encode = encodeURIComponent;
const withProject = (path, id) =>
  id === null ? path : `${path}${path.includes("?") ? "&" : "?"}project=${encode(id)}`;

/**
 * A request about the project that is shown. If another one is shown when the response arrives, the response
 * is dropped: it must not appear there.
 */
async function inProject(method, path, options = {}, parse = (response) => response) {
  const project = projectId();
  const outcome = await request(method, withProject(path, project), options)
    .then(parse)
    .then(
      (value) => ({ value }),
      (error) => ({ error }),
    );
  if (projectId() !== project) throw new DOMException("Another project is shown.", "AbortError");
  if (outcome.error) throw outcome.error;
  return outcome.value;
}
const get = (path) => inProject("GET", path, {}, json);
const getBlob = (path) => inProject("GET", path, {}, (response) => response.blob());

export const deleteMe = () => request("DELETE", "/api/me");
export const deleteData = () => request("DELETE", "/api/me/data");

export const projects = async () => (await read("GET", "/api/projects")).projects;
export const addProject = (name) => read("POST", "/api/projects", { json: { name } });
export const addSample = () => read("POST", "/api/projects/sample");
export const renameProject = (id, name) => read("PATCH", `/api/projects/${encode(id)}`, { json: { name } });
export const removeProject = (id) => request("DELETE", `/api/projects/${encode(id)}`);

export const me = () => get("/api/me");

export const classes = async () => (await get("/api/classes")).classes;
export const addClass = (name) => inProject("POST", "/api/classes", { json: { name } }, json);
/** The class of a project that has this name, which is created if needed; another project may be shown. */
export async function findOrAddClass(project, name) {
  const path = withProject("/api/classes", project);
  const { classes } = await read("GET", path);
  return classes.find((row) => row.name === name) ?? read("POST", path, { json: { name } });
}
export const renameClass = (id, name) =>
  inProject("PATCH", `/api/classes/${encode(id)}`, { json: { name } }, json);
export const removeClass = (id) => inProject("DELETE", `/api/classes/${encode(id)}`);

export const photos = async () => (await get("/api/photos")).photos;
export const movePhoto = (id, class_id) =>
  inProject("PATCH", `/api/photos/${encode(id)}`, { json: { class_id } }, json);
export const removePhoto = (id) => inProject("DELETE", `/api/photos/${encode(id)}`);
export const thumbnail = (id) => getBlob(`/api/photos/${encode(id)}/thumbnail`);
export const photo = (id) => getBlob(`/api/photos/${encode(id)}`);
/**
 * The stored photo, and whether it is new: the same bytes are stored once in a class. The project is given,
 * because uploads continue when another one is shown.
 */
export async function addPhoto(project, classId, body) {
  const response = await request("POST", withProject(`/api/classes/${encode(classId)}/photos`, project), {
    body,
  });
  return { photo: await response.json(), added: response.status === 201 };
}

export const trainings = async () => (await get("/api/trainings")).trainings;
export const train = (options) => inProject("POST", "/api/trainings", { json: options }, json);
export const cancel = (id) => inProject("DELETE", `/api/trainings/${encode(id)}`);
export const events = (id, after, signal) =>
  inProject("GET", `/api/trainings/${encode(id)}/events`, {
    headers: { "Last-Event-ID": String(after) },
    signal,
  });

export const predict = (body, version) =>
  inProject("POST", `/api/predictions?version=${version}`, { body }, json);

export const versions = async () => (await get("/api/versions")).versions;
export const assessment = (number) => get(`/api/versions/${number}/check`);
export const upload = (file) =>
  inProject(
    "POST",
    "/api/versions",
    { body: new Blob([file], { type: "application/octet-stream" }) },
    json,
  );
export const makeCurrent = (number) => inProject("PUT", "/api/versions/current", { json: { number } });
export const removeVersion = (number) => inProject("DELETE", `/api/versions/${number}`);
/**
 * A version as "file", "onnx", "web" or "report". The project is given, because a download continues when
 * another one is shown.
 */
export async function download(project, number, kind) {
  const response = await request("GET", withProject(`/api/versions/${number}/${kind}`, project));
  return response.blob();
}
