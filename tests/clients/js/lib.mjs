// What the scripts share: a page for the hooks, and how they report. Each prints one JSON value per line.
import { JSDOM } from "jsdom";

export const [baseUrl, given = "{}"] = process.argv.slice(2);
export const options = JSON.parse(given);

export const say = (scenario, facts) => console.log(JSON.stringify({ scenario, ...facts }));

/** Runs scenarios side by side. One that fails says so, and the others still run. */
export async function scenarios(all) {
  const chosen = Object.entries(all).filter(([name]) => !options.only || options.only.includes(name));
  await Promise.all(
    chosen.map(async ([name, scenario]) => {
      try {
        say(name, await withTimeLimit(scenario(), name));
      } catch (error) {
        say(name, { failed: `${error?.stack ?? error}` });
      }
    }),
  );
  process.exit(0);
}

export const pause = (ms) => new Promise((resolve) => setTimeout(resolve, ms));
export const within = (promise, what, ms = 40_000) => withTimeLimit(promise, what, ms);

function withTimeLimit(promise, what, ms = 60_000) {
  let timer;
  const late = new Promise((_, reject) => {
    timer = setTimeout(() => reject(new Error(`${what}: not within ${ms} ms`)), ms);
  });
  return Promise.race([promise, late]).finally(() => clearTimeout(timer));
}

/** A DOM, before React is loaded: it looks for one once. */
export function page() {
  const { window } = new JSDOM("<!doctype html><div id=root></div>", { url: "http://localhost/" });
  globalThis.window = window;
  globalThis.document = window.document;
  globalThis.navigator ??= window.navigator;
  globalThis.HTMLElement = window.HTMLElement;
  globalThis.WebSocket ??= window.WebSocket;
  globalThis.sessionStorage = window.sessionStorage;
  return window;
}

/** Renders a component that only calls `use`, and tells what it returned. */
export async function mounted(use) {
  const { createElement, useEffect } = await import("react");
  const { createRoot } = await import("react-dom/client");
  const seen = [];
  const waiting = new Set();
  const root = createRoot(document.createElement("div"));
  function Probe() {
    const value = use();
    useEffect(() => {
      seen.push(value);
      for (const look of waiting) look(value);
    });
    return null;
  }
  root.render(createElement(Probe));
  const until = (holds, what, ms = 40_000) => {
    let look;
    const found = new Promise((resolve) => {
      look = (value) => holds(value) && resolve(value);
      waiting.add(look);
      if (seen.length) look(seen.at(-1));
    });
    return withTimeLimit(found, what, ms)
      .catch((error) => {
        const last = seen.at(-1);
        throw new Error(`${error.message}; last: ${describe(last)}`);
      })
      .finally(() => waiting.delete(look));
  };
  await withTimeLimit(new Promise((resolve) => waiting.add(resolve)), "mounted").finally(() => waiting.clear());
  return { seen, until, now: () => seen.at(-1), unmount: () => root.unmount() };
}

function describe(value) {
  const messages = (value?.messages ?? []).map((m) => `${kind(m)}:${text(m).slice(0, 60)}`);
  return JSON.stringify({
    loading: value?.isLoading,
    error: value?.error && `${value.error?.message ?? JSON.stringify(value.error)}`,
    messages,
    interrupts: value?.interrupts,
  });
}

export const kind = (message) => message.type ?? message.getType?.();

export function text(message) {
  const { content } = message;
  if (typeof content === "string") return content;
  return (content ?? []).map((block) => block.text ?? "").join("");
}

export const texts = (messages) => messages.map((message) => [kind(message), text(message)]);
export const ids = (messages) => messages.map((message) => message.id);
