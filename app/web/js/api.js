/** The public API, and nothing else: JSON requests and event streams. */

import { eventsOf } from "./sse.js";
import { remember, remembered } from "./storage.js";

const BASE = new URL("api/", document.baseURI);

/** An answer that is not a success. `status` is 0 when the service could not be reached. */
export class ApiError extends Error {
  constructor(status, code, detail, retryAfter = null) {
    super(detail);
    this.status = status;
    this.code = code;
    this.retryAfter = retryAfter;
  }
}

/** Told of every change: true while the service can be reached. */
export const connection = new EventTarget();
let reachable = true;

function noteReachable(now) {
  if (now === reachable) return;
  reachable = now;
  connection.dispatchEvent(new CustomEvent("change", { detail: now }));
}

export const apiKey = () => remembered("key", "");
export const setApiKey = (key) => remember("key", key);

function headers(more = {}) {
  const key = apiKey();
  return { ...(key ? { "x-api-key": key } : {}), ...more };
}

async function send(method, path, body, { signal, ...more } = {}) {
  const init = { method, headers: headers(more.headers), signal };
  if (body !== undefined) {
    init.body = JSON.stringify(body);
    init.headers["content-type"] = "application/json";
  }
  let response;
  try {
    response = await fetch(new URL(path, BASE), init);
  } catch (error) {
    if (error.name === "AbortError") throw error;
    noteReachable(false);
    throw new ApiError(0, "unreachable", String(error.message ?? error));
  }
  noteReachable(true);
  if (!response.ok) throw await problem(response);
  return response;
}

async function problem(response) {
  let told = {};
  try {
    told = await response.json();
  } catch {
    // A proxy in between may answer anything.
  }
  const error = new ApiError(response.status, told.code ?? "http_error", told.detail ?? response.statusText, Number(response.headers.get("retry-after")) || null);
  if (response.status === 401) connection.dispatchEvent(new Event("unauthorized"));
  return error;
}

async function json(method, path, body, options) {
  const response = await send(method, path, body, options);
  return response.status === 204 || response.status === 202 ? null : response.json();
}

export const api = {
  get: (path, options) => json("GET", path, undefined, options),
  post: (path, body = {}, options = {}) => json("POST", path, body, options),
  put: (path, body, options) => json("PUT", path, body, options),
  patch: (path, body, options) => json("PATCH", path, body, options),
  delete: (path, options) => json("DELETE", path, undefined, options),
  /** POST that is answered with events. */
  events: async (path, body, options) => eventsOf(await send("POST", path, body, options)),
  /** GET of a stream, from behind the event with that id; all of it without one. */
  follow: async (path, lastEventId, options = {}) =>
    eventsOf(await send("GET", path, undefined, { ...options, headers: lastEventId ? { "last-event-id": lastEventId } : {} })),
};

/** Resolves when the service answers again. */
export async function reachableAgain(signal) {
  for (let pause = 500; ; pause = Math.min(pause * 1.6, 5000)) {
    await new Promise((resolve) => setTimeout(resolve, pause));
    if (signal?.aborted) throw new DOMException("given up", "AbortError");
    try {
      const response = await fetch(new URL("../ready", BASE), { signal });
      if (response.ok) {
        noteReachable(true);
        return;
      }
    } catch (error) {
      if (error.name === "AbortError") throw error;
    }
  }
}
