/** What is said in the open thread and what the agent does about it: runs are started, joined, answered, stopped. */

import { api } from "./api.js";
import { checkpointBefore } from "./branch.js";
import { failed } from "./problems.js";
import { RunFollower } from "./run.js";
import { keyOf } from "./transcript.js";

export class Talk {
  /** `page`: the parts of the page, which thread is open, and how it is read again. */
  constructor(page) {
    this.page = page;
    this.follower = new RunFollower({
      begun: () => this.setBusy(true),
      take: (event) => this.took(event),
      restarted: () => this.page.conversation.transcript.restart(),
      ended: (told) => this.ended(told),
    });
  }

  /** Whether this page follows a run. */
  get active() {
    return this.follower.active;
  }

  /** Follows no run any longer; it goes on. */
  leave() {
    this.follower.leave();
    this.setBusy(false);
  }

  /** Says something; `edited` is the message of the person in whose place a branch begins. */
  async send(text, edited = null) {
    const input = { messages: [{ type: "human", id: crypto.randomUUID(), content: text }] };
    this.page.conversation.error = null;
    this.setBusy(true); // At once, so that nothing is sent twice.
    const threadId = this.page.threadId;
    try {
      const checkpoint = edited ? await checkpointBefore(threadId, edited) : null;
      if (threadId !== this.page.threadId) return; // Another thread was opened meanwhile: this one stays as it is.
      if (!threadId) await this.begin();
      if (edited) this.page.conversation.transcript.cutBefore(edited.key);
      this.page.conversation.interrupts = [];
      this.page.conversation.transcript.addOwn(input.messages[0]);
      this.page.conversation.render();
      this.page.conversation.toEnd();
      await this.run({ input, ...(checkpoint ? { checkpoint_id: checkpoint } : {}) });
    } catch (error) {
      // Another thread is open by now: the run, if it was begun, goes on without this page.
      if (error.name === "AbortError" || (threadId && threadId !== this.page.threadId)) return;
      this.setBusy(false);
      this.page.conversation.transcript.live.delete(keyOf(input.messages[0].id));
      this.page.conversation.render();
      this.page.composer.restore(text, edited);
      failed(error);
      await this.page.refresh(); // What was cut off for the branch, and the questions that waited, are there still.
    }
  }

  /** Makes the thread that the first message belongs to. */
  async begin() {
    const thread = await api.post("threads", {});
    this.page.threadId = thread.thread_id;
    this.page.conversation.threadId = thread.thread_id;
    this.page.conversation.transcript.clear();
    history.pushState(null, "", `#/threads/${thread.thread_id}`);
    this.page.head.toolsHidden = false;
    this.page.gauge.open(thread.thread_id);
    this.page.threads.select(thread.thread_id);
    await this.page.threads.load();
    this.page.showTitle();
  }

  /** Starts a run with the agent and model of the composer. Rejects with ApiError. */
  async run(body) {
    const threadId = this.page.threadId;
    this.page.conversation.error = null;
    this.setBusy(true);
    try {
      await this.follower.start(threadId, { assistant_id: this.page.composer.agent, context: this.page.composer.model ? { model_name: this.page.composer.model } : {}, multitask_strategy: "reject", ...body });
      this.page.threads.note(threadId, { status: "busy" });
    } catch (error) {
      if (error.name !== "AbortError") this.setBusy(false);
      throw error;
    }
  }

  /** Answers a question that waits. */
  async answer(interrupt, value) {
    const several = this.page.conversation.interrupts.length > 1;
    const before = this.page.conversation.interrupts;
    this.page.conversation.interrupts = [];
    this.setBusy(true);
    try {
      await this.run({ command: { resume: several ? { [interrupt.id]: value } : value } });
    } catch (error) {
      if (error.name === "AbortError") return;
      this.page.conversation.interrupts = before;
      this.page.conversation.render();
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

  took(event) {
    this.page.conversation.take(event);
    if (event.event !== "updates") return;
    this.page.gauge.soon();
    this.page.composer.showTodos(this.page.conversation.transcript.todos);
    const title = Object.values(event.data ?? {}).find((update) => update?.title)?.title;
    if (title) {
      this.page.threads.note(this.page.threadId, { extracted: { title } });
      this.page.showTitle();
    }
  }

  async ended({ error }) {
    this.setBusy(false);
    this.page.conversation.error = error;
    const { transcript } = this.page.conversation;
    if (transcript.progress?.status !== "failed") transcript.progress = null;
    transcript.endRun();
    await this.page.refresh();
  }

  /** Follows the run that is under way, if there is one. */
  async joinNewest(threadId) {
    const [running, pending] = await Promise.all(["running", "pending"].map((status) => api.get(`threads/${threadId}/runs?status=${status}&limit=10`)));
    const run = running.at(-1) ?? pending.at(-1);
    if (run && threadId === this.page.threadId && !this.follower.active) this.follower.join(threadId, run.run_id);
  }

  setBusy(busy) {
    this.page.composer.busy = busy;
    this.page.head.busy = busy;
    const { conversation } = this.page;
    if (conversation.busy === busy) return;
    conversation.busy = busy;
    conversation.schedule("all");
  }
}
