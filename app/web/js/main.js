/** Puts the parts of the page together, and knows which thread is open. */

import { api, connection } from "./api.js";
import { ContextChanges } from "./changes.js";
import { Composer } from "./composer.js";
import { textOf } from "./content.js";
import { Conversation } from "./conversation.js";
import { byId, button, h } from "./dom.js";
import { Gauge } from "./gauge.js";
import { Head } from "./head.js";
import { t, translatePage } from "./i18n.js";
import { openCompactions, openKey, openMemory, openSkills } from "./panels.js";
import { explain, failed, toast } from "./problems.js";
import { openSearch } from "./search.js";
import { Talk } from "./talk.js";
import { applyTheme, switchTheme } from "./theme.js";
import { ThreadList } from "./threads.js";

const ROUTE = /^#\/threads\/([\w-]+)$/;
const LOOK_AGAIN = 4000; // ms between two looks for runs that others started

class App {
  constructor() {
    this.threadId = null;
    this.seenChange = null; // when the open thread was last changed, as far as this page knows
    this.talk = new Talk(this);
    this.changes = new ContextChanges(this);
    this.threads = new ThreadList({
      opened: (id) => this.go(id),
      removed: (id) => id === this.threadId && this.go(null),
      renamed: () => this.showTitle(),
      panel: (name) => this.panel(name),
      theme: () => switchTheme(),
    });
    this.composer = new Composer({
      sent: (text, edited) => this.talk.send(text, edited),
      compact: (focus) => this.changes.compact(focus),
      stop: () => this.talk.stop(),
    });
    this.conversation = new Conversation(this.deeds());
    this.gauge = new Gauge(explain);
    this.head = new Head(this.gauge.node, {
      compact: () => this.changes.compact(""),
      history: () => openCompactions(this.threadId, this.deeds()),
      search: () => this.search(),
    });
    document.addEventListener("keydown", (event) => this.shortcut(event));
    window.addEventListener("hashchange", () => this.route());
    connection.addEventListener("change", (event) => this.showConnection(event.detail));
    connection.addEventListener("unauthorized", () => this.askForKey());
    setInterval(() => this.lookAround(), LOOK_AGAIN);
  }

  async start() {
    await Promise.all([this.threads.load(), this.route()]);
  }

  deeds() {
    return {
      threadId: () => this.threadId,
      explain,
      failed,
      welcome: () => this.welcome(),
      copy: async (text) => {
        try {
          await navigator.clipboard.writeText(text);
          toast(t("copied"));
        } catch {
          toast(t("notCopied"), { failure: true });
        }
      },
      pin: (entry) => this.changes.pin(entry),
      edit: (entry) => this.composer.edit(entry, textOf(entry.message)),
      retry: (entry) => !this.conversation.busy && this.talk.send(textOf(entry.message), entry),
      goOn: () => this.talk.run({ input: null }),
      answer: (interrupt, value) => this.talk.answer(interrupt, value),
      undo: (record) => this.changes.undo(record),
      redo: (record) => this.changes.redo(record),
    };
  }

  welcome() {
    return h("section", { class: "welcome" }, h("img", { src: "web/icon.svg", alt: "", width: 48, height: 48 }), h("h2", {}, t("welcome")), h("p", {}, t("welcomeText")), h("div", { class: "choices" }, ["example1", "example2", "example3"].map((key) => button(t(key), { class: "choice", onclick: () => !this.conversation.busy && this.talk.send(t(key)) }))));
  }

  go(threadId) {
    const hash = threadId ? `#/threads/${threadId}` : "#/";
    if (location.hash === hash || (!threadId && !location.hash)) return this.route();
    location.hash = hash;
  }

  async route() {
    const threadId = ROUTE.exec(location.hash)?.[1] ?? null;
    if (threadId && threadId === this.threadId) return;
    this.talk.leave();
    if (this.composer.editing) this.composer.cancelEdit();
    this.threadId = threadId;
    this.seenChange = null;
    this.threads.select(threadId);
    this.head.toggleSidebar(false);
    this.gauge.open(null);
    this.head.toolsHidden = !threadId;
    this.composer.showTodos([]);
    this.conversation.error = null;
    this.showTitle();
    byId("composer-text").focus({ preventScroll: true });
    await this.openThread(threadId);
  }

  async openThread(threadId) {
    try {
      await this.conversation.open(threadId);
      if (threadId === this.threadId) this.gauge.open(threadId);
      if (threadId) await this.takeStatus(threadId);
    } catch (error) {
      if (threadId !== this.threadId || error.name === "AbortError") return;
      if (error.status === 404) {
        this.gone();
      } else if (error.status !== 401) {
        failed(error);
      }
    }
  }

  /** Joins the run that is under way, shows the question that waits, the error the last run ended with. */
  async takeStatus(threadId) {
    const extract = { title: "values.title", todos: "values.todos" };
    // The service has to read the whole state for these, so they are asked for only when something hangs on them.
    if (this.conversation.transcript.hasOpenCalls()) extract.delegations = "values.delegations";
    const [thread] = await api.post("threads/search", { ids: [threadId], select: ["thread_id", "status", "updated_at", "metadata", "interrupts", "error"], extract });
    if (threadId !== this.threadId || !thread) return;
    this.seenChange = thread.updated_at;
    const { todos, delegations } = thread.extracted ?? {};
    this.composer.showTodos(todos ?? []);
    for (const delegation of delegations ?? []) this.conversation.transcript.delegations.set(delegation.id, delegation);
    this.conversation.interrupts = Object.values(thread.interrupts ?? {}).flat();
    this.conversation.error = thread.status === "error" ? messageOf(thread.error) : null;
    this.threads.note(threadId, { status: thread.status, metadata: thread.metadata, extracted: thread.extracted });
    this.showTitle();
    this.conversation.render();
    if (thread.status === "busy" && !this.talk.active) await this.talk.joinNewest(threadId);
  }

  /** Somebody else, or another window, may have started a run here. */
  async lookAround() {
    if (!this.threadId || this.talk.active || document.hidden) return;
    const threadId = this.threadId;
    try {
      const [thread] = await api.post("threads/search", { ids: [threadId], select: ["status", "updated_at"] });
      if (threadId !== this.threadId || this.talk.active) return;
      if (!thread) return this.gone();
      const changed = this.seenChange && this.seenChange !== thread.updated_at;
      this.seenChange = thread.updated_at;
      if (thread.status === "busy") await this.talk.joinNewest(threadId);
      else if (changed) await this.refresh();
    } catch (error) {
      if (error.status === 404) this.gone();
    }
  }

  /** The open thread does not exist, or no longer. */
  gone() {
    toast(t("noThread"), { failure: true });
    this.threads.load();
    this.go(null);
  }

  showTitle() {
    this.head.showTitle(this.threadId ? this.threads.titleOf(this.threadId) || t("untitled") : "");
  }

  showConnection(reachable) {
    const place = byId("connection");
    place.hidden = reachable;
    place.textContent = reachable ? "" : t("connectionLost");
    if (reachable) {
      this.threads.load();
      if (!this.talk.active && this.threadId) this.refresh();
    }
  }

  /** Reads what is open again. */
  async refresh() {
    const threadId = this.threadId;
    if (!threadId) return;
    try {
      await this.conversation.refresh();
      await this.takeStatus(threadId);
      this.gauge.look();
    } catch (error) {
      if (threadId !== this.threadId) return;
      if (error.status === 404) this.gone();
      else if (error.status !== 0) failed(error);
    }
  }

  shortcut(event) {
    if (event.key !== "k" || !(event.ctrlKey || event.metaKey) || !this.threadId) return;
    event.preventDefault();
    if (!document.querySelector("dialog[open]")) this.search();
  }

  search() {
    openSearch(this.threadId, { jump: (seq) => this.conversation.jumpTo(seq).catch(failed) });
  }

  panel(name) {
    this.head.toggleSidebar(false);
    if (name === "memory") openMemory();
    else if (name === "skills") openSkills();
    else this.askForKey();
  }

  askForKey() {
    if (document.querySelector("dialog[open]")) return;
    openKey({
      changed: () => {
        this.threads.load();
        this.composer.refresh();
        const open = this.threadId;
        this.threadId = null;
        if (open) this.route();
      },
    });
  }
}

const messageOf = (error) => (typeof error === "string" ? error : (error?.message ?? error?.error ?? t("runFailed")));

applyTheme();
translatePage();
new App().start();
