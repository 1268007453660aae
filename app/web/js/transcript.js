/**
 * The conversation as this page knows it: what pages of the API hold, and what a running run adds to it.
 *
 * A message has one key for its whole life. When the service puts a reminder before a message of the person, the message
 * gets the suffix `__user`; it is the same message all the same.
 */

const HIDDEN_NAMES = new Set(["summary"]);

export const keyOf = (id) => (id ?? "").replace(/__user$/, "");

export class Transcript {
  constructor() {
    this.clear();
  }

  clear() {
    this.stored = []; // entries of the API, one run of seqs without gaps, oldest first
    this.live = new Map(); // key → entry that no page has held yet
    this.nested = new Map(); // tool call id → entries of the subagent that it started
    this.markers = [];
    this.hasOlder = false;
    this.hasNewer = false;
    this.until = 1; // the seq before which everything down to the oldest stored entry is loaded
    this.progress = null; // a compaction that is under way or was skipped or failed in this run
    this.delegations = new Map();
    this.todos = [];
    this._namespaces = new Map();
    this._newestCalls = [];
  }

  /** All entries to show, oldest first. Live ones belong to the end, so they are left out while the end is not loaded. */
  entries() {
    if (this.hasNewer) return this.stored;
    const known = new Set(this.stored.map((entry) => entry.key));
    return [...this.stored, ...[...this.live.values()].filter((entry) => !known.has(entry.key))];
  }

  /**
   * Replaces what is loaded by what was just read: pages that follow each other, oldest first, up to before the seq
   * `until`; null: up to the end. Entries older than `from` are left out.
   */
  takePages(pages, until, { from = 0, most = Infinity } = {}) {
    const read = pages.flatMap((page) => page.data.map(stored));
    this.stored = read.filter((entry) => entry.seq >= from).slice(-most);
    this.hasOlder = pages[0].has_more || this.stored.length < read.length;
    this._reaches(until ?? Infinity, pages.at(-1).total);
    this.markers = [];
    for (const page of pages) this._takeMarkers(page);
    if (!this.hasNewer) this._forgetStored();
  }

  takeOlder(page, most) {
    this.stored = [...page.data.map(stored), ...this.stored];
    this.hasOlder = page.has_more;
    this._takeMarkers(page);
    if (this.stored.length > most) {
      this.stored = this.stored.slice(0, most);
      this._reaches(this.stored.at(-1).seq + 1, page.total);
    }
  }

  /** `page` ends before the seq `until`; some of its entries may be stored already. */
  takeNewer(page, until, most) {
    const last = this.stored.at(-1)?.seq ?? 0;
    this.stored = [...this.stored, ...page.data.map(stored).filter((entry) => entry.seq > last)];
    this._reaches(until, page.total);
    this._takeMarkers(page);
    if (this.stored.length > most) {
      this.stored = this.stored.slice(-most);
      this.hasOlder = true;
    }
  }

  /** Everything before the seq `until` is read. Seqs count hidden messages too, so the newest entry does not say it. */
  _reaches(until, total) {
    this.until = Math.min(until, total + 1);
    this.hasNewer = this.until <= total;
  }

  /** Whether a call stands without its result: then what became of its subagent says how it went. */
  hasOpenCalls() {
    const entries = this.entries();
    const answered = new Set(entries.map((entry) => entry.message.tool_call_id));
    return entries.some((entry) => entry.message.tool_calls?.some((call) => !answered.has(call.id)));
  }

  /** The compactions between the entries that are loaded. */
  shownMarkers() {
    const first = this.hasOlder ? (this.stored[0]?.seq ?? 0) : 0;
    return this.markers.filter((marker) => marker.after_seq >= first && (!this.hasNewer || marker.after_seq < this.until));
  }

  _takeMarkers(page) {
    const byId = new Map(this.markers.map((marker) => [marker.compaction_id, marker]));
    for (const marker of page.markers ?? []) byId.set(marker.compaction_id, marker);
    this.markers = [...byId.values()].sort((one, other) => one.after_seq - other.after_seq);
  }

  _forgetStored() {
    for (const entry of this.stored) this.live.delete(entry.key);
  }

  /** What the person just sent, shown before the service has said anything. */
  addOwn(message) {
    const entry = live(message);
    this.live.set(entry.key, entry);
  }

  /** Leaves out what comes after the message with this key, and itself: a branch begins here. */
  cutBefore(key) {
    const place = this.stored.findIndex((entry) => entry.key === key);
    if (place >= 0) this.stored = this.stored.slice(0, place);
    this.hasNewer = false;
    this.live.clear();
    const last = this.stored.at(-1)?.seq ?? 0;
    this.markers = this.markers.filter((marker) => marker.after_seq <= last);
  }

  /** A run is read from its beginning: what was put together of it before is put together again. */
  restart() {
    for (const entry of this.live.values()) if (entry.partial) entry.partial = null;
    this.progress = null;
  }

  /** One event of a run. Returns what changed: "text" when only the text of one message grew, else "all" or null. */
  take(event) {
    const [name, ...within] = event.event.split("|");
    if (name === "metadata" && event.data?.attempt > 1) return this._beginAgain();
    const call = within.length ? this._callOf(within[0]) : null;
    const place = call ? this._within(call) : this.live;
    if (within.length && !call && name !== "updates") return null;
    if (name === "messages") return this._chunk(place, event.data[0]);
    if (name === "updates") return this._updates(place, event.data, within[0] ?? null);
    if (name === "custom" && event.data?.type === "context_compaction" && !within.length) {
      this.progress = event.data.status === "completed" ? null : event.data;
      return "all";
    }
    return null;
  }

  /** Another worker took the run over: what was cut off is said again, as another message. */
  _beginAgain() {
    for (const place of [this.live, ...this.nested.values()]) {
      for (const [key, entry] of place) if (entry.partial) place.delete(key);
    }
    return "all";
  }

  _chunk(place, message) {
    if (!message?.id || isHidden(message)) return null;
    const key = keyOf(message.id);
    if (!message.type?.endsWith("Chunk")) return this._whole(place, message);
    const entry = place.get(key) ?? live({ ...message, type: "ai", content: "", tool_calls: [] });
    const first = !place.has(key);
    place.set(key, entry);
    const calls = append(entry, message);
    entry.version += 1;
    return first || calls ? "all" : "text";
  }

  _whole(place, message) {
    if (!message?.id || isHidden(message) || message.type === "remove") return null;
    const key = keyOf(message.id);
    const before = place.get(key);
    const entry = live(message);
    entry.version = (before?.version ?? 0) + 1;
    place.set(key, entry);
    const index = this.stored.findIndex((one) => one.key === key);
    if (index >= 0 && place === this.live) {
      this.stored[index] = { ...this.stored[index], message, html: null, version: this.stored[index].version + 1 };
    }
    if (message.tool_calls?.length && place === this.live) this._newestCalls = message.tool_calls;
    return "all";
  }

  _updates(place, updates, namespace) {
    let changed = null;
    for (const [node, update] of Object.entries(updates ?? {})) {
      if (!update || typeof update !== "object" || node.startsWith("SummarizationMiddleware")) continue;
      if (namespace && !this._namespaces.has(namespace)) this._bind(namespace, update);
      const target = namespace ? this._within(this._namespaces.get(namespace)) : place;
      if (!target) continue;
      for (const message of [update.messages ?? []].flat()) changed = this._whole(target, message) ?? changed;
      if (namespace) continue;
      for (const delegation of update.delegations ?? []) this.delegations.set(delegation.id, delegation);
      if (update.todos) this.todos = update.todos;
      if (update.delegations || update.todos) changed = "all";
    }
    return changed;
  }

  /** The subagent of a namespace was given the prompt of one of the newest calls: that is how they belong together. One
   * that does not repeat its prompt belongs to the first call that has no subagent yet. */
  _bind(namespace, update) {
    const prompt = [update.messages ?? []].flat().find((message) => message.type === "human")?.content;
    const taken = new Set(this._namespaces.values());
    const open = this._newestCalls.filter((one) => one.name === "task" && !taken.has(one.id));
    const call = open.find((one) => one.args?.prompt === prompt) ?? open[0];
    if (call) this._namespaces.set(namespace, call.id);
  }

  _callOf(namespace) {
    return this._namespaces.get(namespace) ?? null;
  }

  _within(call) {
    if (!call) return null;
    if (!this.nested.has(call)) this.nested.set(call, new Map());
    return this.nested.get(call);
  }

  /** Everything of the run that is kept is in the state now; what was cut off in mid-sentence is shown as that. */
  endRun() {
    for (const entry of this.live.values()) {
      entry.cut = Boolean(entry.partial);
      entry.version += 1;
    }
  }
}

function stored(item) {
  return { ...item, key: keyOf(item.message.id), version: 0, partial: null };
}

function live(message) {
  return { key: keyOf(message.id), seq: null, message, archived: false, html: null, live: true, version: 0, partial: null };
}

export function isHidden(message) {
  const more = message.additional_kwargs ?? {};
  return Boolean(more.hide_from_ui || more.dynamic_context_reminder) || HIDDEN_NAMES.has(message.name) || message.type === "system";
}

/** Adds a chunk to the message of an entry. True when it changed a tool call. */
function append(entry, chunk) {
  const partial = (entry.partial ??= { content: "", blocks: [], calls: new Map() });
  if (typeof chunk.content === "string") partial.content += chunk.content;
  else for (const block of chunk.content ?? []) appendBlock(partial, block);
  const reasoning = chunk.additional_kwargs?.reasoning_content;
  if (reasoning) appendBlock(partial, { type: "reasoning", reasoning, index: "reasoning" });
  for (const call of chunk.tool_call_chunks ?? []) {
    const key = call.index ?? call.id ?? partial.calls.size;
    const known = partial.calls.get(key) ?? { id: null, name: "", text: "" };
    partial.calls.set(key, { id: known.id ?? call.id, name: known.name || call.name || "", text: known.text + (call.args ?? "") });
  }
  const blocks = [...partial.blocks, ...(partial.content ? [{ type: "text", text: partial.content }] : [])];
  entry.message = {
    ...entry.message,
    content: partial.blocks.length ? blocks : partial.content,
    tool_calls: [...partial.calls.values()].map((call) => ({ id: call.id, name: call.name, args: call.text })),
  };
  return Boolean(chunk.tool_call_chunks?.length);
}

function appendBlock(partial, block) {
  const field = block.type === "text" ? "text" : block.type === "reasoning" ? "reasoning" : block.type === "thinking" ? "thinking" : null;
  const known = partial.blocks.find((one) => one.type === block.type && one.index === block.index);
  if (known && field) known[field] = (known[field] ?? "") + (block[field] ?? "");
  else partial.blocks.push({ ...block });
}
