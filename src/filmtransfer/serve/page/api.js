// The service, as functions. Every failure is a ServiceError that says what is wrong and what to do next.

import { lost } from "./connection.js";
import { token } from "./token.js";

export class ServiceError extends Error {
  constructor({ status, code, message, hint = "", retry = null }) {
    super(message);
    Object.assign(this, { status, code, hint, retry });
  }
}

const WORDS = {
  0: ["The service does not answer.", "Is it still running? The page tries again by itself."],
  401: [
    "The service does not know this token.",
    "Open the link that “fit serve” printed, or ask for a new token.",
  ],
  413: ["That file is too large.", "Try a smaller one."],
  429: ["That was a lot at once.", "Wait a moment and try again."],
  503: ["The service is busy.", "Wait a moment and try again."],
  507: ["There is no room left.", "Remove photos or earlier versions, and try again."],
};
let unknown = () => {};

/** What to do when the token is not known (any more). */
export const onUnknownToken = (listener) => {
  unknown = listener;
};

function gone() {
  lost();
  const [message, hint] = WORDS[0];
  return new ServiceError({ status: 0, code: "gone", message, hint });
}

async function errorOf(response) {
  const said = await response.json().then(
    (body) => body?.error ?? {},
    () => ({}),
  );
  const [message, hint] = WORDS[response.status] ?? [
    "The service could not do that.",
    "Try again in a moment.",
  ];
  const retry = Number(response.headers.get("Retry-After")) || null;
  const error = { status: response.status, code: said.code, message: said.message || message, hint, retry };
  if (said.message) error.hint = said.hint || (response.status in WORDS ? hint : "");
  return new ServiceError(error);
}

async function ask(method, path, { json, body, headers = {}, signal } = {}) {
  const all = { Authorization: `Bearer ${token()}`, ...headers };
  if (json !== undefined) {
    all["Content-Type"] = "application/json";
    body = JSON.stringify(json);
  } else if (body) all["Content-Type"] = body.type || "application/octet-stream";
  let response;
  try {
    response = await fetch(path, { method, body, headers: all, signal, cache: "no-store" });
  } catch (problem) {
    if (problem.name === "AbortError") throw problem;
    throw gone();
  }
  if (response.ok) return response;
  const error = await errorOf(response);
  if (response.status === 401) unknown(error);
  throw error;
}

const read = async (...request) => (await ask(...request)).json();
const part = encodeURIComponent;

export const me = () => read("GET", "/api/me");
export const deleteMe = () => ask("DELETE", "/api/me");

export const classes = async () => (await read("GET", "/api/classes")).classes;
export const addClass = (name) => read("POST", "/api/classes", { json: { name } });
export const renameClass = (id, name) => read("PATCH", `/api/classes/${part(id)}`, { json: { name } });
export const removeClass = (id) => ask("DELETE", `/api/classes/${part(id)}`);

export const photos = async () => (await read("GET", "/api/photos")).photos;
export const movePhoto = (id, class_id) => read("PATCH", `/api/photos/${part(id)}`, { json: { class_id } });
export const removePhoto = (id) => ask("DELETE", `/api/photos/${part(id)}`);
export const thumbnail = async (id) => (await ask("GET", `/api/photos/${part(id)}/thumbnail`)).blob();
export const photo = async (id) => (await ask("GET", `/api/photos/${part(id)}`)).blob();
/** The photo as the service keeps it, and whether it is new (the same one twice is kept once). */
export async function addPhoto(classId, body) {
  const response = await ask("POST", `/api/classes/${part(classId)}/photos`, { body });
  return { photo: await response.json(), added: response.status === 201 };
}

export const trainings = async () => (await read("GET", "/api/trainings")).trainings;
export const train = (options) => read("POST", "/api/trainings", { json: options });
export const cancel = (id) => ask("DELETE", `/api/trainings/${part(id)}`);
export const training = (id) => read("GET", `/api/trainings/${part(id)}`);
export const events = (id, after, signal) =>
  ask("GET", `/api/trainings/${part(id)}/events`, { headers: { "Last-Event-ID": String(after) }, signal });

export const predict = (body, signal) => read("POST", "/api/predictions", { body, signal });

export const versions = async () => (await read("GET", "/api/versions")).versions;
export const check = (number) => read("GET", `/api/versions/${number}/check`);
export const download = async (number) => (await ask("GET", `/api/versions/${number}/file`)).blob();
export const upload = (file) =>
  read("POST", "/api/versions", { body: new Blob([file], { type: "application/octet-stream" }) });
export const makeCurrent = (number) => ask("PUT", "/api/versions/current", { json: { number } });
export const removeVersion = (number) => ask("DELETE", `/api/versions/${number}`);
