/** Small helpers to build elements. Texts are always set as text, never as markup. */

/** An element. `props`: attributes; `class`; `onclick` and the like are listeners; `data` fills `dataset`; null is left out. */
export function h(tag, props = {}, ...children) {
  const node = document.createElement(tag);
  for (const [name, value] of Object.entries(props ?? {})) set(node, name, value);
  node.append(...children.flat(Infinity).filter((child) => child !== null && child !== undefined && child !== false));
  return node;
}

function set(node, name, value) {
  if (value === null || value === undefined || value === false) return;
  if (name === "class") node.className = value;
  else if (name === "data") Object.assign(node.dataset, value);
  else if (name.startsWith("on")) node.addEventListener(name.slice(2), value);
  else if (name === "value" || name === "checked" || name === "open") node[name] = value;
  else node.setAttribute(name, value === true ? "" : value);
}

/** A button of type "button". */
export function button(label, props = {}, ...children) {
  return h("button", { type: "button", ...props }, ...(children.length ? children : [label]));
}

/** A button that shows an icon; `label` is its name for screen readers and its tooltip. */
export function iconButton(name, label, props = {}) {
  return h("button", { type: "button", "aria-label": label, title: label, ...props, class: `icon ${props.class ?? ""}` }, icon(name));
}

const SVG = "http://www.w3.org/2000/svg";
const SHAPES = {
  plus: "M12 5v14M5 12h14",
  menu: "M4 7h16M4 12h16M4 17h16",
  search: "M11 4a7 7 0 1 0 0 14 7 7 0 0 0 0-14zM20 20l-4-4",
  send: "M12 19V5M6 11l6-6 6 6",
  stop: "M7 7h10v10H7z",
  more: "M6 12h.01M12 12h.01M18 12h.01",
  close: "M6 6l12 12M18 6L6 18",
  edit: "M4 20h4L19 9l-4-4L4 16z",
  trash: "M5 7h14M10 7V5h4v2M7 7l1 12h8l1-12",
  pin: "M9 4h6l-1 6 3 3H7l3-3zM12 13v7",
  retry: "M20 12a8 8 0 1 1-2.3-5.6M20 4v5h-5",
  copy: "M9 9h10v10H9zM5 15V5h10",
  compact: "M5 5h14M5 19h14M12 7v3.5M10 8.5l2 2 2-2M12 17v-3.5M10 15.5l2-2 2 2",
  undo: "M9 8H15a4.5 4.5 0 0 1 0 9H8M9 8l3-3M9 8l3 3",
  gear: "M4 8h9M17 8h3M4 16h3M11 16h9M15 6v4M9 14v4",
  down: "M12 5v14M6 13l6 6 6-6",
  theme: "M12 4a8 8 0 1 0 8 8 6 6 0 0 1-8-8z",
};

export function icon(name) {
  const svg = document.createElementNS(SVG, "svg");
  svg.setAttribute("viewBox", "0 0 24 24");
  svg.setAttribute("aria-hidden", "true");
  const path = document.createElementNS(SVG, "path");
  path.setAttribute("d", SHAPES[name]);
  svg.append(path);
  return svg;
}

/** Markup that the service rendered and sanitised; nothing else may be given here. */
export function rendered(markup, props = {}) {
  const node = h("div", props);
  node.innerHTML = markup;
  return node;
}

export const byId = (id) => document.getElementById(id);

const FOCUSABLE = "a[href], button, summary, input, textarea, select, [tabindex]";

/** An element that is built anew takes the focus of the one it replaces, once it stands in the page: on the same control. */
export function keepFocus(before, after) {
  if (!before?.contains(document.activeElement)) return;
  const place = [...before.querySelectorAll(FOCUSABLE)].indexOf(document.activeElement);
  queueMicrotask(() => after.querySelectorAll(FOCUSABLE)[place]?.focus({ preventScroll: true }));
}

/** The key belongs to an input method (Chinese, Japanese, …), not to the page. Safari says so by the code 229 alone. */
export const isComposing = (event) => event.isComposing || event.keyCode === 229;
