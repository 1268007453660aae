/** Compacting by hand: look at what would go, let a summary be written, change it, apply it. */

import { api } from "./api.js";
import { textOf } from "./content.js";
import { openDialog } from "./dialog.js";
import { h, button } from "./dom.js";
import { number, t } from "./i18n.js";
import { explain } from "./problems.js";

const LISTED = 200;

export class CompactDialog {
  /** `done(answer)` is called when the thread was compacted. */
  constructor(threadId, { focus = "", model = null, done }) {
    this._threadId = threadId;
    this._model = model;
    this._lines = new Map();
    this._done = done;
    this._draft = null;
    this._abort = new AbortController();
    this._place = h("div", { class: "stage" });
    this._failure = h("p", { class: "failure", role: "alert", hidden: true });
    this._focus = h("textarea", { rows: 2, value: focus, placeholder: t("focusHint"), "aria-label": t("focus"), maxlength: 4000 });
    this._node = openDialog(t("compactTitle"), () => [this._failure, this._place], { wide: true, onclose: () => this._closed() });
    this._plan();
  }

  _body(more = {}) {
    return { force: true, instructions: this._focus.value.trim() || null, model_name: this._model, ...more };
  }

  async _plan() {
    this._work(t("planning"));
    const { signal } = this._abort;
    const [plan] = await Promise.all([this._try(() => api.post(`threads/${this._threadId}/compact`, this._body({ dry_run: "plan" }), { signal })), this._loadLines(signal)]);
    if (!plan) return this._place.replaceChildren(this._deeds(button(t("tryAgain"), { class: "primary", onclick: () => this._plan() })));
    this._shownPlan = plan;
    this._showPlan(plan);
  }

  /** A line about each of the newest messages, so that the plan can name what it is about. */
  async _loadLines(signal) {
    try {
      const { data } = await api.get(`threads/${this._threadId}/messages?limit=200&include_hidden=true`, { signal });
      for (const { message } of data) this._lines.set(message.id, lineOf(message));
    } catch {
      // Then the plan names them by their ids.
    }
  }

  _showPlan(plan) {
    if (!plan.would_compact) {
      this._place.replaceChildren(h("p", {}, t(`reason.${plan.reason}`)), this._deeds());
      return;
    }
    this._place.replaceChildren(
      this._figures(plan.tokens_before, plan.tokens_after_estimate, plan.remove.length, true),
      h("div", { class: "beside" }, this._listing(t("goes", { count: number(plan.remove.length) }), plan.remove), this._listing(t("stays", { count: number(plan.keep.length) }), plan.keep)),
      h("label", { class: "field" }, h("span", {}, t("focus")), this._focus),
      this._deeds(button(t("writeSummary"), { class: "quiet", onclick: () => this._write() }), button(t("compactNow"), { class: "primary", onclick: () => this._now() })),
    );
  }

  _figures(before, after, count, estimated) {
    const bar = h("span", { class: "after" });
    bar.style.width = `${Math.min(100, (100 * after) / Math.max(before, 1))}%`;
    return h("div", { class: "figures-box" }, h("p", {}, t(estimated ? "wouldGo" : "goesNow", { count: number(count), before: number(before), after: number(after) })), h("div", { class: "shrink", "aria-hidden": "true" }, bar));
  }

  _listing(title, items) {
    const rows = items.slice(0, LISTED).map((item) => h("li", {}, h("span", { class: "said" }, this._lines.get(item.message_id) ?? item.message_id), h("span", { class: "why" }, whyText(item.why))));
    const rest = items.length - rows.length;
    return h("section", { "aria-label": title, tabindex: 0 }, h("h3", {}, title), h("ol", {}, rows), rest > 0 ? h("p", { class: "faint" }, t("andMore", { count: number(rest) })) : null);
  }

  /** Has a summary written that changes nothing yet. */
  async _write() {
    this._work(t("writing"));
    const draft = await this._try(() => api.post(`threads/${this._threadId}/compact`, this._body({ dry_run: "summary" }), { signal: this._abort.signal }));
    if (!draft) return this._showPlan(this._shownPlan);
    if (draft.status !== "draft") {
      this._place.replaceChildren(h("p", {}, t(`reason.${draft.reason}`)), this._deeds());
      return;
    }
    this._draft = draft;
    this._showDraft(draft, draft.summary_text);
  }

  _showDraft(draft, text) {
    const field = h("textarea", { class: "summary", rows: 14, value: text, "aria-label": t("summary") });
    this._place.replaceChildren(
      this._figures(draft.total_tokens, draft.tokens_after, draft.removed_message_count, false),
      h("label", { class: "field" }, h("span", {}, t("summaryEdit")), field),
      this._deeds(button(t("back"), { class: "quiet", onclick: () => this._back() }), button(t("apply"), { class: "primary", onclick: () => this._apply(field.value) })),
    );
    field.focus();
  }

  async _back() {
    await this._discard();
    this._showPlan(this._shownPlan);
  }

  async _apply(text) {
    const draft = this._draft;
    this._work(t("applying"));
    const edited = text === draft.summary_text ? {} : { summary_text: text };
    const answer = await this._try(() => api.post(`threads/${this._threadId}/compactions/${draft.compaction_id}/apply`, edited));
    if (!answer) return this._showDraft(draft, text);
    this._draft = null;
    this._finish(answer);
  }

  async _now() {
    this._work(t("compacting"));
    const answer = await this._try(() => api.post(`threads/${this._threadId}/compact`, this._body()));
    if (!answer) return this._showPlan(this._shownPlan);
    if (!answer.compacted) {
      this._place.replaceChildren(h("p", {}, t(`reason.${answer.reason}`)), this._deeds());
      return;
    }
    this._finish(answer);
  }

  _finish(answer) {
    this._done(answer);
    this._node.close();
  }

  _deeds(...buttons) {
    return h("p", { class: "deeds" }, button(t("cancel"), { class: "quiet", onclick: () => this._node.close() }), buttons);
  }

  _work(text) {
    this._failure.hidden = true;
    const seconds = h("span", { class: "faint" });
    const begun = Date.now();
    const timer = setInterval(() => {
      if (!seconds.isConnected) return clearInterval(timer);
      seconds.textContent = ` ${Math.round((Date.now() - begun) / 1000)} s`;
    }, 1000);
    this._place.replaceChildren(h("p", { class: "working", role: "status" }, h("span", { class: "pulse" }), text, seconds));
  }

  /** The answer, or null after the failure was shown. */
  async _try(call) {
    try {
      return await call();
    } catch (error) {
      if (error.name === "AbortError") return null;
      this._failure.textContent = explain(error);
      this._failure.hidden = false;
      return null;
    }
  }

  async _discard() {
    const draft = this._draft;
    this._draft = null;
    if (draft) await api.delete(`threads/${this._threadId}/compactions/${draft.compaction_id}`).catch(() => {}); // It expires by itself.
  }

  _closed() {
    this._abort.abort();
    this._discard();
  }
}

function lineOf(message) {
  const text = textOf(message).replace(/\s+/g, " ").slice(0, 140);
  const calls = (message.tool_calls ?? []).map((call) => `→ ${call.name}`).join(" ");
  return `${t(`role.${message.type}`)}: ${text || calls}`;
}

function whyText(why) {
  const text = t(`why.${why}`);
  return text === `why.${why}` ? String(why).replaceAll("_", " ") : text;
}
