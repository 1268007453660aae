/** How one message looks. A node is built anew when its entry has changed; only growing text is written in place. */

import { h, button, icon, iconButton, rendered } from "./dom.js";
import { argumentsOf, attachmentsOf, gistOf, reasoningOf, textOf } from "./content.js";
import { t } from "./i18n.js";

const LONG = 12_000; // characters of a text that is shown whole
const LONG_RESULT = 4_000;

/** `view` knows results of calls, delegations, what is unfolded, and what the person may do: see view.js. */
export function messageNode(entry, view) {
  const { message } = entry;
  const classes = ["message", `is-${message.type}`, entry.archived ? "is-archived" : "", entry.pinned ? "is-pinned" : "", entry.cut ? "is-cut" : ""];
  const node = h("article", { class: classes.filter(Boolean).join(" "), data: { key: entry.key, seq: entry.seq ?? "" }, "aria-label": label(entry) });
  if (entry.archived) node.append(h("span", { class: "badge", title: t("archivedHint") }, t("archived")));
  node.append(...parts(entry, view));
  if (entry.cut) node.append(h("span", { class: "badge" }, t("cut")));
  node.append(actions(entry, view));
  return node;
}

function label(entry) {
  const who = { human: t("you"), ai: t("agent"), tool: t("toolResult") }[entry.message.type] ?? entry.message.type;
  return entry.archived ? `${who}, ${t("archived")}` : who;
}

function parts(entry, view) {
  const { message } = entry;
  if (message.type === "tool") return [toolResult(message, view, entry.key)];
  const reasoning = reasoningOf(message);
  return [
    reasoning ? fold(view, `${entry.key}:reasoning`, "reasoning", [t("reasoning")], () => plain(reasoning, view, `${entry.key}:r`)) : null,
    body(entry, view),
    attachments(message),
    ...(message.tool_calls ?? []).map((call) => callNode(call, view)),
  ].filter(Boolean);
}

function body(entry, view) {
  const text = textOf(entry.message);
  if (!text) return null;
  if (entry.html && entry.message.type !== "human") return rendered(entry.html, { class: "text markdown" });
  return plain(text, view, entry.key);
}

/** Text as it is. A very long one is folded, so that looking at a conversation stays quick. */
function plain(text, view, key, limit = LONG) {
  if (text.length <= limit || view.unfolded.has(`${key}:all`)) return h("div", { class: "text plain" }, text);
  const more = button(t("showAll", { count: text.length.toLocaleString() }), {
    class: "link",
    onclick: () => view.unfold(`${key}:all`),
  });
  return h("div", { class: "text plain" }, `${text.slice(0, limit)}…\n`, more);
}

/** Writes the grown text of a message that is being answered; false when the node does not show plain text. */
export function growText(node, entry) {
  const place = node.querySelector(":scope > .text.plain");
  const text = textOf(entry.message);
  if (!place || text.length > LONG) return false;
  const shown = place.firstChild;
  if (!shown || place.childNodes.length > 1 || !text.startsWith(shown.data)) return false;
  shown.appendData(text.slice(shown.data.length));
  return true;
}

function attachments(message) {
  const found = attachmentsOf(message);
  if (!found.length) return null;
  const nodes = found.map((item) =>
    item.kind === "image" ? h("img", { src: item.url, alt: t("image"), loading: "lazy" }) : h("span", { class: "file" }, item.name),
  );
  return h("div", { class: "attachments" }, nodes);
}

function fold(view, key, name, summary, content) {
  const node = h("details", { class: `fold ${name}`, open: view.unfolded.has(key) }, h("summary", {}, summary));
  const fill = () => {
    if (node.open && node.childElementCount === 1) node.append(content());
    view.keep(key, node.open);
  };
  if (node.open) node.append(content());
  node.addEventListener("toggle", fill);
  return node;
}

function callNode(call, view) {
  const result = view.resultOf(call.id);
  const delegation = view.delegation(call.id);
  const state = view.waits(call.id) ? "waiting" : callState(result, delegation, view.busy);
  const summary = [h("span", { class: `dot ${state}`, title: t(`call.${state}`) }), h("span", { class: "name" }, call.name), h("span", { class: "gist" }, gistOf(call)), h("span", { class: "sr" }, t(`call.${state}`))];
  return fold(view, `call:${call.id}`, "call", summary, () =>
    h(
      "div",
      { class: "inside" },
      h("h4", {}, t("arguments")),
      h("pre", {}, argumentsOf(call)),
      subagent(call, view),
      result ? [h("h4", {}, t("result")), resultBody(result, view)] : null,
    ),
  );
}

function callState(result, delegation, busy) {
  if (result) return result.status === "error" ? "failed" : "done";
  if (delegation && delegation.status !== "in_progress") return delegation.status === "completed" ? "done" : "failed";
  return busy ? "running" : "open";
}

function subagent(call, view) {
  const said = view.nested(call.id);
  if (!said?.length) return null;
  const inner = said.filter((entry) => entry.message.type !== "tool").map((entry) => messageNode(entry, { ...view, resultOf: view.nestedResult(call.id), waits: () => false, actions: false }));
  return [h("h4", {}, t("subagent")), h("div", { class: "nested" }, inner)];
}

function toolResult(message, view, key) {
  const summary = [h("span", { class: "dot done" }), h("span", { class: "name" }, message.name ?? t("toolResult")), h("span", { class: "gist" }, t("result"))];
  return fold(view, `result:${key}`, "call", summary, () => h("div", { class: "inside" }, resultBody(message, view)));
}

function resultBody(message, view) {
  const text = textOf(message);
  const long = text.length > LONG_RESULT && !view.unfolded.has(`${message.id}:all`);
  return [
    h("pre", { class: message.status === "error" ? "failed" : "" }, long ? `${text.slice(0, LONG_RESULT)}…` : text || t("emptyResult")),
    long ? button(t("showAll", { count: text.length.toLocaleString() }), { class: "link", onclick: () => view.unfold(`${message.id}:all`) }) : null,
    attachments(message),
  ];
}

function actions(entry, view) {
  if (view.actions === false || entry.message.type === "tool") return h("span", { hidden: true });
  const list = [
    iconButton("copy", t("copy"), { onclick: () => view.copy(textOf(entry.message)) }),
    entry.seq && !entry.archived ? iconButton("pin", entry.pinned ? t("unpin") : t("pin"), { class: entry.pinned ? "on" : "", "aria-pressed": String(Boolean(entry.pinned)), onclick: () => view.pin(entry) }) : null,
    entry.message.type === "human" && entry.seq ? iconButton("edit", t("edit"), { onclick: () => view.edit(entry) }) : null,
    entry.message.type === "human" && entry.seq ? iconButton("retry", t("retry"), { onclick: () => view.retry(entry) }) : null,
  ];
  return h("div", { class: "actions", role: "group", "aria-label": t("actions") }, list.filter(Boolean), entry.pinned ? h("span", { class: "pinned" }, icon("pin")) : null);
}
