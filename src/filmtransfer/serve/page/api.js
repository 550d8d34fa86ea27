// The API of the service as functions. Every failure is a ServiceError with a message and a hint.

import { pause, reportLost, untilConnected } from "./connection.js";
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
    "The service does not know this token.",
    "Open the link that “fit serve” printed, or ask for a new token.",
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
  if (detail.message) error.hint = detail.hint || (response.status in MESSAGES ? hint : "");
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

const read = async (...args) => (await request(...args)).json();
const encode = encodeURIComponent;

export const me = () => read("GET", "/api/me");
export const deleteMe = () => request("DELETE", "/api/me");

export const classes = async () => (await read("GET", "/api/classes")).classes;
export const addClass = (name) => read("POST", "/api/classes", { json: { name } });
export const renameClass = (id, name) => read("PATCH", `/api/classes/${encode(id)}`, { json: { name } });
export const removeClass = (id) => request("DELETE", `/api/classes/${encode(id)}`);

export const photos = async () => (await read("GET", "/api/photos")).photos;
export const movePhoto = (id, class_id) => read("PATCH", `/api/photos/${encode(id)}`, { json: { class_id } });
export const removePhoto = (id) => request("DELETE", `/api/photos/${encode(id)}`);
export const thumbnail = async (id) => (await request("GET", `/api/photos/${encode(id)}/thumbnail`)).blob();
export const photo = async (id) => (await request("GET", `/api/photos/${encode(id)}`)).blob();
/** The stored photo, and whether it is new: the same bytes are stored once in a class. */
export async function addPhoto(classId, body) {
  const response = await request("POST", `/api/classes/${encode(classId)}/photos`, { body });
  return { photo: await response.json(), added: response.status === 201 };
}

export const trainings = async () => (await read("GET", "/api/trainings")).trainings;
export const train = (options) => read("POST", "/api/trainings", { json: options });
export const cancel = (id) => request("DELETE", `/api/trainings/${encode(id)}`);
export const training = (id) => read("GET", `/api/trainings/${encode(id)}`);
export const events = (id, after, signal) =>
  request("GET", `/api/trainings/${encode(id)}/events`, {
    headers: { "Last-Event-ID": String(after) },
    signal,
  });

export const predict = (body, signal) => read("POST", "/api/predictions", { body, signal });

export const versions = async () => (await read("GET", "/api/versions")).versions;
export const assessment = (number) => read("GET", `/api/versions/${number}/check`);
export const download = async (number) => (await request("GET", `/api/versions/${number}/file`)).blob();
export const upload = (file) =>
  read("POST", "/api/versions", { body: new Blob([file], { type: "application/octet-stream" }) });
export const makeCurrent = (number) => request("PUT", "/api/versions/current", { json: { number } });
export const removeVersion = (number) => request("DELETE", `/api/versions/${number}`);
