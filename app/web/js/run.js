/** A run as this page follows it: started here or elsewhere, through lost connections and reloads. */

import { ApiError, api, reachableAgain } from "./api.js";

const MODES = ["messages-tuple", "updates", "custom"];

export class RunFollower {
  /** `listener`: `begun(runId)`, `take(event)`, `restarted()`, `ended({error, interrupted})`; called for the newest run alone. */
  constructor(listener) {
    this._listener = listener;
    this._abort = null;
    this._stopping = false;
    this.runId = null;
    this.threadId = null;
  }

  get active() {
    return this._abort !== null;
  }

  /** Starts a run and follows it. Rejects with ApiError when it is refused. */
  async start(threadId, body) {
    this.leave();
    const abort = (this._abort = new AbortController());
    this.threadId = threadId;
    this.runId = null;
    this._stopping = false;
    const asked = { stream_mode: MODES, stream_subgraphs: true, stream_resumable: true, on_disconnect: "continue", ...body };
    let events;
    try {
      events = await api.events(`threads/${threadId}/runs/stream`, asked, { signal: abort.signal });
    } catch (error) {
      if (this._abort === abort) this._abort = null;
      throw error;
    }
    this._read(threadId, events, abort);
  }

  /** Follows a run that is under way, from its beginning. */
  join(threadId, runId) {
    this.leave();
    const abort = (this._abort = new AbortController());
    this.threadId = threadId;
    this.runId = runId;
    this._listener.begun(runId);
    this._read(threadId, null, abort);
  }

  /** Follows it no longer; it goes on. */
  leave() {
    this._abort?.abort();
    this._abort = null;
  }

  /** Ends the run itself; one that has no id yet as soon as it has. Rejects with ApiError. */
  async stop() {
    this._stopping = !this.runId;
    if (this.runId) await api.post(`threads/${this.threadId}/runs/${this.runId}/cancel?action=interrupt`);
  }

  async _read(threadId, events, abort) {
    const told = { error: null, interrupted: false };
    let last = null;
    for (let source = events; ; source = null) {
      try {
        source ??= await this._resume(threadId, last, abort.signal);
        for await (const event of source) {
          if (abort.signal.aborted) return;
          last = event.id ?? last;
          if (event.event === "end") return this._end(abort, told);
          this._note(event, told);
        }
        if (!this.runId) return this._end(abort, told);
      } catch (error) {
        if (error.name === "AbortError") return;
        if (error instanceof ApiError && error.status !== 0 && error.status < 500) return this._end(abort, { ...told, error: told.error ?? error.message });
      }
      // The stream was cut off: the service stopped, or the way to it is lost.
      try {
        await reachableAgain(abort.signal);
      } catch {
        return;
      }
    }
  }

  async _resume(threadId, last, signal) {
    if (!this.runId) throw new ApiError(404, "not_found", "The run was not started");
    if (last === null) this._listener.restarted();
    return api.follow(`threads/${threadId}/runs/${this.runId}/stream`, last, { signal });
  }

  _note(event, told) {
    if (event.event === "metadata") {
      const first = !this.runId;
      this.runId = event.data.run_id;
      if (first) this._listener.begun(this.runId);
      if (this._stopping) this.stop().catch(() => {}); // It may have just ended by itself.
    } else if (event.event === "error") {
      told.error = event.data?.message ?? event.data?.error ?? "error";
    }
    if (event.data?.__interrupt__) told.interrupted = true;
    this._listener.take(event);
  }

  _end(abort, told) {
    if (this._abort !== abort) return;
    this._abort = null;
    this._listener.ended(told);
  }
}
