/** A compaction as a line in the conversation; opened, the summary stands beside what it replaced. */

import { api } from "./api.js";
import { h, button, rendered } from "./dom.js";
import { number, short, t, when } from "./i18n.js";
import { textOf } from "./content.js";

const SHOWN = 200; // replaced messages that are listed

export function markerNode(marker, deeds, keeper) {
  const node = h("details", { class: `marker is-${marker.kind} is-${marker.status}`, open: keeper.open, data: { compaction: marker.compaction_id } });
  node.append(h("summary", {}, h("span", { class: "line" }), h("span", { class: "figures" }, figures(marker)), h("span", { class: "line" })));
  const fill = async () => {
    keeper.keep(node.open);
    if (!node.open || node.childElementCount > 1) return;
    const place = h("div", { class: "replaced", "aria-busy": "true" }, t("loading"));
    node.append(place);
    try {
      const record = await api.get(`threads/${marker.thread_id ?? deeds.threadId()}/compactions/${marker.compaction_id}?render=html`);
      place.replaceChildren(...details(record, marker, deeds));
    } catch (error) {
      place.replaceChildren(h("p", { class: "failure" }, deeds.explain(error)));
    }
    place.removeAttribute("aria-busy");
    node.scrollIntoView({ block: "nearest" });
  };
  node.addEventListener("toggle", fill);
  if (node.open) fill();
  return node;
}

function figures(marker) {
  const kind = t(`kind.${marker.kind}`);
  const what = { count: number(marker.removed_message_count), before: short(marker.tokens_before), after: short(marker.tokens_after) };
  return [h("strong", {}, kind), " ", t("markerFigures", what), marker.status === "undone" ? ` · ${t("record.undone")}` : ""];
}

function details(record, marker, deeds) {
  const back = marker.undoable ? button(t("undo"), { class: "quiet", onclick: () => deeds.undo(record) }) : null;
  const again = marker.redoable ? button(t("redo"), { class: "quiet", onclick: () => deeds.redo(record) }) : null;
  return [
    h("dl", { class: "record" }, facts(record).map(([name, value]) => h("div", {}, h("dt", {}, name), h("dd", {}, value)))),
    h("div", { class: "beside" }, summaryOf(record), replacedBy(record)),
    back || again ? h("p", { class: "deeds" }, back, again) : h("p", { class: "faint" }, t(marker.status === "undone" ? "notRedoable" : "notUndoable")),
  ];
}

function facts(record) {
  const coverage = record.coverage === null ? null : `${Math.round(record.coverage * 100)} %`;
  return [
    [t("fact.when"), when(record.created_at)],
    [t("fact.tokens"), `${number(record.tokens_before)} → ${number(record.tokens_after)}`],
    [t("fact.model"), record.extractive ? t("extractive") : record.model_name],
    [t("fact.trigger"), record.trigger],
    [t("fact.coverage"), coverage],
    [t("fact.duration"), record.duration_ms ? `${(record.duration_ms / 1000).toFixed(1)} s` : null],
    [t("fact.focus"), record.instructions],
  ].filter(([, value]) => value);
}

function summaryOf(record) {
  const text = record.summary_text ?? "";
  return h("section", { "aria-label": t("summary"), tabindex: 0 }, h("h4", {}, t("summary")), record.summary_html ? rendered(record.summary_html, { class: "text markdown" }) : h("div", { class: "text plain" }, text));
}

function replacedBy(record) {
  const messages = record.removed_messages ?? [];
  const shown = messages.slice(0, SHOWN).map((message) => h("li", { class: `is-${message.type}` }, h("span", { class: "who" }, message.name ?? t(`role.${message.type}`)), h("span", { class: "said" }, gist(message))));
  const rest = messages.length - shown.length;
  return h("section", { "aria-label": t("replaced"), tabindex: 0 }, h("h4", {}, t("replacedCount", { count: number(messages.length) })), h("ol", {}, shown), rest > 0 ? h("p", { class: "faint" }, t("andMore", { count: number(rest) })) : null);
}

function gist(message) {
  const calls = (message.tool_calls ?? []).map((call) => `→ ${call.name}`).join(" ");
  const text = textOf(message).replace(/\s+/g, " ");
  return `${text.slice(0, 280)}${text.length > 280 ? "…" : ""} ${calls}`.trim();
}

/** A compaction that is at work in the run, or that came to nothing. */
export function progressNode(progress) {
  const failed = progress.status === "failed";
  const text = progress.status === "started" ? t("compacting") : failed ? t("compactionFailed", { why: progress.error ?? progress.reason ?? "" }) : t("compactionSkipped", { why: t(`reason.${progress.reason}`) });
  return h("p", { class: `progress ${failed ? "failure" : ""}`, role: "status" }, progress.status === "started" ? h("span", { class: "pulse" }) : null, text);
}
