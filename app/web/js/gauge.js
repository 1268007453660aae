/** How full the context is: by part, against the window and the trigger. */

import { api } from "./api.js";
import { h } from "./dom.js";
import { number, short, t } from "./i18n.js";

export const PARTS = ["system", "tools", "summary", "durable", "messages"];
const PAUSE = 900; // ms between two looks during a run

export class Gauge {
  constructor(explain) {
    this._explain = explain;
    this._bar = h("div", { class: "bar" });
    this._text = h("span", { class: "gauge-text" });
    this._table = h("div", { class: "gauge-more" });
    this.node = h("details", { class: "gauge" }, h("summary", { "aria-label": t("context") }, this._bar, this._text), this._table);
    this.node.hidden = true;
    this._threadId = null;
    this._timer = null;
    document.addEventListener("click", (event) => {
      if (this.node.open && !this.node.contains(event.target)) this.node.open = false;
    });
    this.node.addEventListener("keydown", (event) => {
      if (event.key === "Escape") this.node.open = false;
    });
  }

  open(threadId) {
    this._threadId = threadId;
    this.node.hidden = !threadId;
    if (threadId) this.look();
  }

  /** Looks soon; many calls make one look. */
  soon() {
    this._timer ??= setTimeout(() => {
      this._timer = null;
      this.look();
    }, PAUSE);
  }

  async look() {
    const asked = this._threadId;
    if (!asked) return;
    try {
      const context = await api.get(`threads/${asked}/context`);
      if (asked === this._threadId) this._show(context);
    } catch (error) {
      if (error.status !== 0 && asked === this._threadId) this._text.textContent = this._explain(error);
    }
  }

  _show(context) {
    this.context = context;
    const { tokens } = context;
    const full = context.window ?? context.next_trigger_tokens ?? tokens.total;
    const nearest = context.next_trigger_tokens;
    const scale = Math.max(nearest && nearest < full ? Math.min(full, nearest * 1.25) : full, tokens.total) || 1;
    this._bar.replaceChildren(...barParts(tokens, scale), ...(nearest && nearest <= scale ? [trigger(nearest, scale)] : []));
    this._text.textContent = nearest ? t("gauge", { used: short(tokens.total), trigger: short(nearest) }) : short(tokens.total);
    this.node.classList.toggle("is-near", Boolean(nearest) && tokens.total >= nearest * 0.85);
    this._table.replaceChildren(...this._details(context));
  }

  _details(context) {
    const { tokens } = context;
    const rows = PARTS.map((part) => h("tr", {}, h("th", { scope: "row" }, h("span", { class: `swatch part-${part}` }), t(`part.${part}`)), h("td", {}, number(tokens[part])), h("td", { class: "faint" }, share(tokens[part], tokens.total))));
    return [
      h("table", {}, h("caption", {}, t("contextCaption", { model: context.model_name })), h("tbody", {}, rows, h("tr", { class: "total" }, h("th", { scope: "row" }, t("total")), h("td", {}, number(tokens.total)), h("td", { class: "faint" }, context.window ? share(tokens.total, context.window) : "")))),
      h("p", {}, context.window ? t("windowIs", { window: number(context.window), reserved: number(tokens.reserved) }) : t("windowUnknown")),
      h("p", {}, firesAt(context)),
      context.breaker.open ? h("p", { class: "failure" }, t("breakerOpen", { failures: context.breaker.failures })) : null,
      context.last_error ? h("p", { class: "failure" }, t("lastError", { error: context.last_error })) : null,
    ].filter(Boolean);
  }
}

function barParts(tokens, scale) {
  return PARTS.filter((part) => tokens[part] > 0).map((part) => {
    const node = h("span", { class: `part part-${part}`, title: `${t(`part.${part}`)}: ${number(tokens[part])}` });
    node.style.flexBasis = `${(100 * tokens[part]) / scale}%`;
    return node;
  });
}

function trigger(tokens, scale) {
  const node = h("span", { class: "trigger", title: t("triggerAt", { tokens: number(tokens) }) });
  node.style.left = `${(100 * tokens) / scale}%`;
  return node;
}

const share = (value, whole) => (whole ? `${((100 * value) / whole).toFixed(1)} %` : "");

function firesAt(context) {
  if (!context.trigger.length) return t("neverFires");
  const clauses = context.trigger.map(({ type, value, tokens }) => (type === "messages" ? t("clause.messages", { value: number(value), now: number(context.message_count) }) : type === "fraction" ? t("clause.fraction", { value: `${value * 100} %`, tokens: number(tokens) }) : t("clause.tokens", { value: number(value) })));
  return t("fires", { clauses: clauses.join(t("or")) });
}
