/** Where the person writes: text, agent, model, send, stop. */

import { api } from "./api.js";
import { byId, h, iconButton, isComposing } from "./dom.js";
import { t } from "./i18n.js";
import { failed } from "./problems.js";
import { remember, remembered } from "./storage.js";

export class Composer {
  /** `listener`: `sent(text)`, `compact(focus)`, `stop()`, `editCancelled()`. */
  constructor(listener) {
    this._listener = listener;
    this._busy = false;
    this.editing = null;
    this._build();
    this._loadChoices();
  }

  _build() {
    this.field = h("textarea", { id: "composer-text", rows: 1, placeholder: t("composerHint"), "aria-label": t("message"), oninput: () => this._grow(), onkeydown: (event) => this._key(event) });
    this._agent = h("select", { "aria-label": t("agentChoice"), onchange: () => remember("agent", this._agent.value) });
    this._model = h("select", { "aria-label": t("modelChoice"), onchange: () => remember("model", this._model.value) });
    this._send = iconButton("send", t("send"), { class: "primary send", type: "submit" });
    this._stop = iconButton("stop", t("stop"), { class: "primary send", onclick: () => this._listener.stop() });
    this._stop.hidden = true;
    this._note = h("p", { class: "editing", hidden: true }, t("editing"), " ", h("button", { type: "button", class: "link", onclick: () => this.cancelEdit() }, t("cancel")));
    this._todos = h("div", { class: "todos", hidden: true });
    const form = h("form", { class: "composer", onsubmit: (event) => this._submit(event) }, this._note, this.field, h("div", { class: "composer-foot" }, this._agent, this._model, h("span", { class: "hint" }, t("composerKeys")), this._stop, this._send));
    byId("dock").append(this._todos, form);
    this._form = form;
  }

  async _loadChoices() {
    try {
      const [agents, { models }] = await Promise.all([api.post("assistants/search", { limit: 100 }), api.get("models")]);
      fill(this._agent, agents.map((agent) => [agent.name ?? agent.graph_id, agent.name, agent.description]), remembered("agent"));
      const usable = models.filter((model) => model.available).map((model) => [model.name, model.display_name]);
      fill(this._model, [["", t("agentsModel")], ...usable], remembered("model", ""));
      this._agent.hidden = agents.length < 2;
    } catch (error) {
      if (error.status !== 0 && error.status !== 401) failed(error);
    }
  }

  /** Asks for the choices again, after a key was given. */
  refresh() {
    this._loadChoices();
  }

  get agent() {
    return this._agent.value || "agent";
  }

  get model() {
    return this._model.value || null;
  }

  set busy(busy) {
    this._busy = busy;
    this._stop.hidden = !busy;
    this._send.hidden = busy;
  }

  edit(entry, text) {
    this.editing = entry;
    this._note.hidden = false;
    this.field.value = text;
    this._grow();
    this.field.focus();
  }

  cancelEdit() {
    this.editing = null;
    this._note.hidden = true;
    this.field.value = "";
    this._grow();
    this._listener.editCancelled?.();
  }

  showTodos(todos) {
    this._todos.hidden = !todos?.length;
    if (!todos?.length) return;
    const done = todos.filter((todo) => todo.status === "completed").length;
    const open = this._todos.querySelector("details")?.open ?? false;
    const now = todos.find((todo) => todo.status === "in_progress");
    this._todos.replaceChildren(
      h("details", { open }, h("summary", {}, t("plan", { done, all: todos.length }), now ? h("span", { class: "gist" }, ` · ${now.content}`) : null), h("ul", {}, todos.map((todo) => h("li", { class: `is-${todo.status}` }, todo.content, h("span", { class: "sr" }, t(`todo.${todo.status}`)))))),
    );
  }

  /** Puts back what could not be sent; `edited`: the message that it was to replace. */
  restore(text, edited = null) {
    if (this.field.value) return;
    if (edited) return this.edit(edited, text);
    this.field.value = text;
    this._grow();
  }

  _key(event) {
    if (isComposing(event)) return;
    if (event.key === "Enter" && !event.shiftKey) {
      event.preventDefault();
      this._form.requestSubmit();
    } else if (event.key === "Escape") {
      if (this.editing) this.cancelEdit();
      else if (this._busy) this._listener.stop();
    }
  }

  _submit(event) {
    event.preventDefault();
    const text = this.field.value.trim();
    if (!text) return;
    const compact = /^\/compact(?:\s+([\s\S]*))?$/.exec(text);
    if (!compact && this._busy) return;
    this.field.value = "";
    this._grow();
    if (compact) return this._listener.compact(compact[1]?.trim() ?? "");
    const edited = this.editing;
    this.editing = null;
    this._note.hidden = true;
    this._listener.sent(text, edited);
  }

  _grow() {
    this.field.style.height = "auto";
    this.field.style.height = `${Math.min(this.field.scrollHeight, 240)}px`;
  }
}

function fill(select, options, chosen) {
  select.replaceChildren(...options.map(([value, label, title]) => h("option", { value, title: title ?? null }, label ?? value)));
  if (chosen !== null && options.some(([value]) => value === chosen)) select.value = chosen;
}
