/** Puts the parts of the page together: what is open, what is running, what the person does. */

import { api, connection } from "./api.js";
import { checkpointBefore } from "./branch.js";
import { CompactDialog } from "./compact.js";
import { Composer } from "./composer.js";
import { textOf } from "./content.js";
import { Conversation } from "./conversation.js";
import { confirmed } from "./dialog.js";
import { byId, button, h, iconButton } from "./dom.js";
import { Gauge } from "./gauge.js";
import { short, t, translatePage } from "./i18n.js";
import { openCompactions, openKey, openMemory, openSkills } from "./panels.js";
import { explain, failed, toast } from "./problems.js";
import { RunFollower } from "./run.js";
import { openSearch } from "./search.js";
import { remember, remembered } from "./storage.js";
import { ThreadList } from "./threads.js";
import { keyOf } from "./transcript.js";

const ROUTE = /^#\/threads\/([\w-]+)$/;
const LOOK_AGAIN = 4000; // ms between two looks for runs that others started

class App {
  constructor() {
    this.threadId = null;
    this.seenChange = null; // when the open thread was last changed, as far as this page knows
    this.follower = new RunFollower({
      begun: () => this.setBusy(true),
      take: (event) => this.took(event),
      restarted: () => this.conversation.transcript.restart(),
      ended: (told) => this.ended(told),
    });
    this.threads = new ThreadList({
      opened: (id) => this.go(id),
      removed: (id) => id === this.threadId && this.go(null),
      renamed: () => this.showTitle(),
      panel: (name) => this.panel(name),
      theme: () => switchTheme(),
    });
    this.composer = new Composer({
      sent: (text, edited) => this.send(text, edited),
      compact: (focus) => this.compact(focus),
      stop: () => this.stop(),
    });
    this.conversation = new Conversation(this.deeds());
    this.gauge = new Gauge(explain);
    this.buildHead();
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
      pin: (entry) => this.pin(entry),
      edit: (entry) => this.composer.edit(entry, textOf(entry.message)),
      retry: (entry) => !this.conversation.busy && this.send(textOf(entry.message), entry),
      goOn: () => this.run({ input: null }),
      answer: (interrupt, value) => this.answer(interrupt, value),
      undo: (record) => this.undo(record),
      redo: (record) => this.redo(record),
    };
  }

  buildHead() {
    this.title = h("h2", { class: "title" });
    this.compactButton = button(t("compact"), { class: "quiet", onclick: () => this.compact("") });
    this.tools = h("div", { class: "tools" }, this.gauge.node, this.compactButton, iconButton("undo", t("compactions"), { onclick: () => openCompactions(this.threadId, this.deeds()) }), iconButton("search", t("searchThread"), { onclick: () => this.search() }));
    const menu = iconButton("menu", t("threads"), { class: "menu", "aria-controls": "sidebar", "aria-expanded": "false", onclick: () => this.toggleSidebar(true) });
    this.menu = menu;
    byId("head").append(menu, this.title, this.tools);
    byId("shade").addEventListener("click", () => this.toggleSidebar(false));
    document.addEventListener("keydown", (event) => {
      if (event.key === "Escape") this.toggleSidebar(false);
      if (event.key === "k" && (event.ctrlKey || event.metaKey) && this.threadId) {
        event.preventDefault();
        if (!document.querySelector("dialog[open]")) this.search();
      }
    });
  }

  toggleSidebar(open) {
    const wasOpen = document.body.classList.contains("has-sidebar");
    document.body.classList.toggle("has-sidebar", open);
    byId("shade").hidden = !open;
    this.menu.setAttribute("aria-expanded", String(open));
    if (open) byId("sidebar").querySelector("input").focus();
    else if (wasOpen && byId("sidebar").contains(document.activeElement)) this.menu.focus();
  }

  welcome() {
    return h("section", { class: "welcome" }, h("img", { src: "web/icon.svg", alt: "", width: 48, height: 48 }), h("h2", {}, t("welcome")), h("p", {}, t("welcomeText")), h("div", { class: "choices" }, ["example1", "example2", "example3"].map((key) => button(t(key), { class: "choice", onclick: () => !this.conversation.busy && this.send(t(key)) }))));
  }

  // What is open

  go(threadId) {
    const hash = threadId ? `#/threads/${threadId}` : "#/";
    if (location.hash === hash || (!threadId && !location.hash)) return this.route();
    location.hash = hash;
  }

  async route() {
    const threadId = ROUTE.exec(location.hash)?.[1] ?? null;
    if (threadId && threadId === this.threadId) return;
    this.follower.leave();
    this.setBusy(false);
    if (this.composer.editing) this.composer.cancelEdit();
    this.threadId = threadId;
    this.seenChange = null;
    this.threads.select(threadId);
    this.toggleSidebar(false);
    this.gauge.open(null);
    this.tools.hidden = !threadId;
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
    if (thread.status === "busy" && !this.follower.active) await this.joinNewest(threadId);
  }

  async joinNewest(threadId) {
    const [running, pending] = await Promise.all(["running", "pending"].map((status) => api.get(`threads/${threadId}/runs?status=${status}&limit=10`)));
    const run = running.at(-1) ?? pending.at(-1);
    if (run && threadId === this.threadId && !this.follower.active) this.follower.join(threadId, run.run_id);
  }

  /** Somebody else, or another window, may have started a run here. */
  async lookAround() {
    if (!this.threadId || this.follower.active || document.hidden) return;
    const threadId = this.threadId;
    try {
      const [thread] = await api.post("threads/search", { ids: [threadId], select: ["status", "updated_at"] });
      if (threadId !== this.threadId || this.follower.active) return;
      if (!thread) return this.gone();
      const changed = this.seenChange && this.seenChange !== thread.updated_at;
      this.seenChange = thread.updated_at;
      if (thread.status === "busy") await this.joinNewest(threadId);
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
    const title = this.threadId ? this.threads.titleOf(this.threadId) || t("untitled") : "";
    this.title.textContent = title;
    document.title = title ? `${title} · Threadkeep` : "Threadkeep";
  }

  showConnection(reachable) {
    const place = byId("connection");
    place.hidden = reachable;
    place.textContent = reachable ? "" : t("connectionLost");
    if (reachable) {
      this.threads.load();
      if (!this.follower.active && this.threadId) this.refresh();
    }
  }

  // What runs

  async send(text, edited = null) {
    const input = { messages: [{ type: "human", id: crypto.randomUUID(), content: text }] };
    this.conversation.error = null;
    this.setBusy(true); // At once, so that nothing is sent twice.
    const threadId = this.threadId;
    try {
      const checkpoint = edited ? await checkpointBefore(threadId, edited) : null;
      if (threadId !== this.threadId) return; // Another thread was opened meanwhile: this one stays as it is.
      if (!threadId) await this.begin();
      if (edited) this.conversation.transcript.cutBefore(edited.key);
      this.conversation.interrupts = [];
      this.conversation.transcript.addOwn(input.messages[0]);
      this.conversation.render();
      this.conversation.toEnd();
      await this.run({ input, ...(checkpoint ? { checkpoint_id: checkpoint } : {}) });
    } catch (error) {
      // Another thread is open by now: the run, if it was begun, goes on without this page.
      if (error.name === "AbortError" || (threadId && threadId !== this.threadId)) return;
      this.setBusy(false);
      this.conversation.transcript.live.delete(keyOf(input.messages[0].id));
      this.conversation.render();
      this.composer.restore(text, edited);
      failed(error);
      await this.refresh(); // What was cut off for the branch, and the questions that waited, are there still.
    }
  }

  async begin() {
    const thread = await api.post("threads", {});
    this.threadId = thread.thread_id;
    this.conversation.threadId = thread.thread_id;
    this.conversation.transcript.clear();
    history.pushState(null, "", `#/threads/${thread.thread_id}`);
    this.tools.hidden = false;
    this.gauge.open(thread.thread_id);
    this.threads.select(thread.thread_id);
    await this.threads.load();
    this.showTitle();
  }

  /** Starts a run with the agent and model of the composer. Rejects with ApiError. */
  async run(body) {
    const threadId = this.threadId;
    this.conversation.error = null;
    this.setBusy(true);
    try {
      await this.follower.start(threadId, { assistant_id: this.composer.agent, context: this.composer.model ? { model_name: this.composer.model } : {}, multitask_strategy: "reject", ...body });
      this.threads.note(threadId, { status: "busy" });
    } catch (error) {
      if (error.name !== "AbortError") this.setBusy(false);
      throw error;
    }
  }

  async answer(interrupt, value) {
    const several = this.conversation.interrupts.length > 1;
    const before = this.conversation.interrupts;
    this.conversation.interrupts = [];
    this.setBusy(true);
    try {
      await this.run({ command: { resume: several ? { [interrupt.id]: value } : value } });
    } catch (error) {
      if (error.name === "AbortError") return;
      this.conversation.interrupts = before;
      this.conversation.render();
      failed(error);
    }
  }

  async stop() {
    try {
      await this.follower.stop();
    } catch (error) {
      if (error.status !== 409) failed(error); // It has just ended by itself.
    }
  }

  setBusy(busy) {
    this.composer.busy = busy;
    this.compactButton && (this.compactButton.disabled = busy);
    if (this.conversation && this.conversation.busy !== busy) {
      this.conversation.busy = busy;
      this.conversation.schedule("all");
    }
  }

  took(event) {
    this.conversation.take(event);
    if (event.event !== "updates") return;
    this.gauge.soon();
    this.composer.showTodos(this.conversation.transcript.todos);
    const title = Object.values(event.data ?? {}).find((update) => update?.title)?.title;
    if (title) {
      this.threads.note(this.threadId, { extracted: { title } });
      this.showTitle();
    }
  }

  async ended({ error }) {
    this.setBusy(false);
    this.conversation.error = error;
    const { transcript } = this.conversation;
    if (transcript.progress?.status !== "failed") transcript.progress = null;
    transcript.endRun();
    await this.refresh();
  }

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

  // What is done with the context

  compact(focus) {
    if (!this.threadId) return toast(t("reason.not_enough_messages"));
    new CompactDialog(this.threadId, {
      focus,
      model: this.composer.model,
      done: (answer) => {
        toast(t("compacted", { count: answer.removed_message_count, before: short(answer.total_tokens), after: short(answer.tokens_after) }), { deed: { label: t("undo"), run: () => this.undo(answer) } });
        this.conversation.refresh().then(() => this.conversation.toEnd(), failed);
        this.gauge.look();
      },
    });
  }

  async undo(record, force = false) {
    try {
      const answer = await api.post(`threads/${this.threadId}/compactions/${record.target_id ?? record.compaction_id}/undo`, { force });
      toast(t("undone", { count: answer.restored_message_count ?? "" }), { deed: { label: t("redo"), run: () => this.redo(record) } });
      await this.afterChange();
    } catch (error) {
      if (error.code !== "would_overflow") return failed(error);
      if (await confirmed(t("undo"), explain(error), t("undoAnyway"))) await this.undo(record, true);
    }
  }

  async redo(record) {
    try {
      await api.post(`threads/${this.threadId}/compactions/${record.target_id ?? record.compaction_id}/redo`, {});
      toast(t("redone"));
      await this.afterChange();
    } catch (error) {
      failed(error);
    }
  }

  async afterChange() {
    await this.conversation.refresh();
    this.gauge.look();
  }

  async pin(entry) {
    const path = `threads/${this.threadId}/messages/${encodeURIComponent(entry.message.id)}/pin`;
    try {
      if (entry.pinned) await api.delete(path);
      else await api.put(path);
      await this.conversation.refresh();
    } catch (error) {
      failed(error);
    }
  }

  search() {
    openSearch(this.threadId, { jump: (seq) => this.conversation.jumpTo(seq).catch(failed) });
  }

  panel(name) {
    this.toggleSidebar(false);
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

function applyTheme() {
  const theme = remembered("theme");
  if (theme) document.documentElement.dataset.theme = theme;
}

function switchTheme() {
  const dark = document.documentElement.dataset.theme ? document.documentElement.dataset.theme === "dark" : matchMedia("(prefers-color-scheme: dark)").matches;
  remember("theme", dark ? "light" : "dark");
  applyTheme();
}

applyTheme();
translatePage();
new App().start();
