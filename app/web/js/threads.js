/** The list of threads: find, begin, rename, delete. */

import { api } from "./api.js";
import { byId, h, button, iconButton } from "./dom.js";
import { asked, confirmed } from "./dialog.js";
import { switchLanguage, t } from "./i18n.js";
import { failed } from "./problems.js";

const PAGE = 40;
const MOST = 1000; // that the API gives at once
const SELECT = ["thread_id", "updated_at", "created_at", "status", "metadata"];

export class ThreadList {
  /** `listener`: `opened(id | null)`, `removed(id)`, `panel(name)`, `theme()`. */
  constructor(listener) {
    this._listener = listener;
    this._threads = [];
    this._sought = "";
    this._more = false;
    this.currentId = null;
    this._build();
  }

  _build() {
    this._list = h("ul", { class: "threads" });
    this._field = h("input", { type: "search", placeholder: t("searchThreads"), "aria-label": t("searchThreads"), oninput: () => this._filter() });
    this._moreButton = button(t("more"), { class: "link more", onclick: () => this._loadMore() });
    byId("sidebar").append(
      h("div", { class: "brand" }, h("img", { src: "web/icon.svg", alt: "", width: 24, height: 24 }), h("h1", {}, "Threadkeep")),
      button(t("newThread"), { class: "primary new", onclick: () => this._listener.opened(null) }),
      this._field,
      h("nav", { class: "list", "aria-label": t("threads") }, this._list, this._moreButton),
      h(
        "div",
        { class: "feet" },
        button(t("memory"), { class: "link", onclick: () => this._listener.panel("memory") }),
        button(t("skills"), { class: "link", onclick: () => this._listener.panel("skills") }),
        button(t("key"), { class: "link", onclick: () => this._listener.panel("key") }),
        button(t("otherLanguage"), { class: "link", lang: t("otherLanguageCode"), onclick: switchLanguage }),
        iconButton("theme", t("theme"), { onclick: () => this._listener.theme() }),
      ),
    );
  }

  /** Reads the list again. */
  async load() {
    try {
      const limit = Math.min(MOST, PAGE * Math.max(1, Math.ceil(this._threads.length / PAGE)));
      this._threads = await this._page(0, limit);
      this._more = this._threads.length === limit;
      this.render();
    } catch (error) {
      if (error.status !== 0 && error.status !== 401) failed(error);
    }
  }

  /** False when it failed. */
  async _loadMore() {
    try {
      const more = await this._page(this._threads.length, PAGE);
      const known = new Set(this._threads.map((thread) => thread.thread_id));
      this._threads.push(...more.filter((thread) => !known.has(thread.thread_id)));
      this._more = more.length === PAGE;
      this.render();
      return true;
    } catch (error) {
      failed(error);
      return false;
    }
  }

  _page(offset, limit) {
    return api.post("threads/search", { limit, offset, sort_by: "updated_at", sort_order: "desc", select: SELECT, extract: { title: "values.title" } });
  }

  async _filter() {
    this._sought = this._field.value.trim().toLowerCase();
    this.render();
    if (this._seeking) return; // The loop below looks for what is sought now.
    this._seeking = true;
    while (this._sought && this._more && this._found().length < 10) if (!(await this._loadMore())) break;
    this._seeking = false;
  }

  _found() {
    return this._threads.filter((thread) => !this._sought || titleOf(thread).toLowerCase().includes(this._sought));
  }

  select(threadId) {
    this.currentId = threadId;
    this.render();
  }

  /** What is known of a thread has changed. */
  note(threadId, change) {
    const known = this._threads.find((thread) => thread.thread_id === threadId);
    if (!known) return this.load();
    Object.assign(known, change);
    this.render();
  }

  titleOf(threadId) {
    const known = this._threads.find((thread) => thread.thread_id === threadId);
    return known ? titleOf(known) : "";
  }

  render() {
    const found = this._found();
    const focused = this._focused();
    this._list.replaceChildren(...(found.length ? found.map((thread) => this._row(thread)) : [h("li", { class: "faint" }, this._sought ? t("nothingFound") : t("noThreads"))]));
    this._moreButton.hidden = !this._more || Boolean(this._sought);
    focused?.();
  }

  /** Where the focus is in the list; a function that puts it there again when the rows are other ones, or null. */
  _focused() {
    const id = document.activeElement.closest?.(".threads li")?.dataset.id;
    if (!id) return null;
    const place = [...document.activeElement.closest("li").querySelectorAll("a, button")].indexOf(document.activeElement);
    return () => this._list.querySelector(`li[data-id="${CSS.escape(id)}"]`)?.querySelectorAll("a, button")[place]?.focus({ preventScroll: true });
  }

  _row(thread) {
    const id = thread.thread_id;
    const current = id === this.currentId;
    const title = titleOf(thread);
    return h(
      "li",
      { class: current ? "is-current" : "", data: { id } },
      h("a", { href: `#/threads/${id}`, "aria-current": current ? "page" : null, title }, h("span", { class: `dot ${thread.status}` }), h("span", { class: "title" }, title), thread.status === "idle" ? null : h("span", { class: "sr" }, t(`status.${thread.status}`))),
      h("span", { class: "row-deeds" }, iconButton("edit", t("rename"), { onclick: () => this.rename(id) }), iconButton("trash", t("delete"), { onclick: () => this.remove(id) })),
    );
  }

  async rename(id) {
    const title = await asked(t("renameThread"), this.titleOf(id), t("rename"));
    if (!title) return;
    try {
      const thread = await api.patch(`threads/${id}`, { metadata: { title } });
      this.note(id, { metadata: thread.metadata });
      this._listener.renamed(id);
    } catch (error) {
      failed(error);
    }
  }

  async remove(id) {
    if (!(await confirmed(t("deleteThread"), t("deleteThreadText", { title: this.titleOf(id) }), t("delete")))) return;
    try {
      await api.delete(`threads/${id}`);
    } catch (error) {
      if (error.status !== 404) return failed(error);
    }
    this._threads = this._threads.filter((thread) => thread.thread_id !== id);
    this.render();
    this._listener.removed(id);
  }
}

export function titleOf(thread) {
  return thread.metadata?.title || thread.extracted?.title || t("untitled");
}
