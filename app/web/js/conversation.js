/** The middle of the page: which messages are shown, in which order, and where one looks. */

import { api } from "./api.js";
import { byId, h, button } from "./dom.js";
import { t } from "./i18n.js";
import { markerNode, progressNode } from "./marker.js";
import { messageNode } from "./message.js";
import { interruptNode } from "./question.js";
import { Sheet } from "./sheet.js";
import { Transcript } from "./transcript.js";
import { View } from "./view.js";

const PAGE = 60;
const MOST = 360; // entries in the page at once; further ones are loaded again when one scrolls there
const LARGEST_PAGE = 200; // that the API gives
const HAND = 1500; // ms for which what scrolls after a touch of wheel, key or pointer is the person's doing
const NEAR = 600; // pixels from an end at which the next page is asked for

export class Conversation {
  /** `deeds`: what the person can do with a message or a marker (edit, retry, pin, copy, undo, redo, answer, inspect). */
  constructor(deeds) {
    this.transcript = new Transcript();
    this.deeds = deeds;
    this.threadId = null;
    this.interrupts = [];
    this.busy = false;
    this._sheet = new Sheet(byId("conversation"));
    this._unfolded = new Set();
    this._scroller = byId("scroller");
    this._end = byId("to-end");
    this._end.append(t("toEnd"));
    this._end.addEventListener("click", () => this.toEnd());
    this._scroller.addEventListener("scroll", () => this._scrolled(), { passive: true });
    this._loading = false;
    this._following = true;
    this._top = 0;
    this._handUntil = 0;
    for (const hand of ["wheel", "touchmove", "keydown", "pointerdown"]) {
      this._scroller.addEventListener(hand, () => (this._handUntil = performance.now() + HAND), { passive: true });
    }
  }

  /** Shows a thread from its end; null: the empty page. Rejects with ApiError. */
  async open(threadId) {
    this.threadId = threadId;
    this.transcript.clear();
    this._unfolded.clear();
    this.interrupts = [];
    this._following = true;
    if (threadId) await this.refresh();
    else this.render();
    this.toEnd();
  }

  /** Reads what is loaded again, up to the end if that is loaded, and stays where one looks. Rejects with ApiError. */
  async refresh() {
    const { hasNewer, until, stored } = this.transcript;
    await this._read(hasNewer ? until : null, stored[0]?.seq ?? Infinity);
  }

  /** Reads the newest page, whatever is loaded. */
  async _readNewest() {
    await this._read(null, Infinity);
  }

  async _read(until, from) {
    const asked = this.threadId;
    const limit = Math.min(LARGEST_PAGE, Math.max(PAGE, this.transcript.stored.length));
    const pages = [];
    for (let before = until; ; before = pages[0].next_before_seq) {
      pages.unshift(await this._page({ before, limit }));
      const count = pages.length * limit;
      if (!(pages[0].next_before_seq > from) || count > 2 * MOST) break;
    }
    if (asked !== this.threadId) return;
    const most = this._following ? MOST : Infinity;
    this._steadily(() => this.transcript.takePages(pages, until, { from: from === Infinity ? 0 : from, most }));
    this._scrolled();
  }

  async _page({ before, limit = PAGE }) {
    const query = new URLSearchParams({ limit, render: "html" });
    if (before) query.set("before_seq", before);
    return api.get(`threads/${this.threadId}/messages?${query}`);
  }

  /** Shows a message of the past and marks it. */
  async jumpTo(seq) {
    const asked = this.threadId;
    this._following = false;
    if (!this.transcript.stored.some((entry) => entry.seq === seq)) {
      const until = seq + PAGE / 2;
      const page = await this._page({ before: until });
      if (asked !== this.threadId) return;
      this.transcript.takePages([page], until);
      this.render();
    }
    const node = this._sheet.nodeOf(this._shownKey(seq));
    if (!node) return;
    node.scrollIntoView({ block: "center" });
    node.classList.add("is-found");
    node.addEventListener("animationend", () => node.classList.remove("is-found"), { once: true });
  }

  /** The key of the node that shows an entry: a result of a tool stands inside its call. */
  _shownKey(seq) {
    const { stored } = this.transcript;
    const entry = stored.find((one) => one.seq === seq);
    if (!entry || this._sheet.has(entry.key)) return entry?.key;
    const id = entry.message.tool_call_id;
    const caller = stored.find((one) => one.message.tool_calls?.some((call) => call.id === id));
    this._unfolded.add(`call:${id}`);
    this.render();
    return caller?.key;
  }

  async toEnd() {
    try {
      if (this.transcript.hasNewer) await this._readNewest();
    } catch (error) {
      return this.deeds.failed(error);
    }
    this._following = true;
    this._handUntil = 0;
    this._scroller.scrollTop = this._scroller.scrollHeight;
  }

  async _scrolled() {
    const { scrollTop, scrollHeight, clientHeight } = this._scroller;
    const below = scrollHeight - scrollTop - clientHeight;
    // Messages that come into view take their true heights, which moves everything: only a person's hand stops following.
    const up = scrollTop < this._top - 1 && performance.now() < this._handUntil;
    this._top = scrollTop;
    this._following = !this.transcript.hasNewer && (below < 80 || (this._following && !up));
    if (this._following && below >= 80) this._follow();
    this._end.hidden = below < 400 && !this.transcript.hasNewer;
    if (this._loading || !this.threadId) return;
    if (scrollTop < NEAR && this.transcript.hasOlder) await this._load("older");
    else if (below < NEAR && this.transcript.hasNewer) await this._load("newer");
  }

  async _load(direction) {
    this._loading = true;
    try {
      const { stored, until } = this.transcript;
      const asked = this.threadId;
      const before = direction === "older" ? stored[0].seq : until + PAGE;
      const page = await this._page({ before });
      // What was loaded may be another part by now, after a jump or a look for what is new.
      if (asked === this.threadId && stored === this.transcript.stored) {
        this._steadily(() => (direction === "older" ? this.transcript.takeOlder(page, MOST) : this.transcript.takeNewer(page, before, MOST)));
      }
    } catch (error) {
      if (error.status !== 0) this.deeds.failed(error);
      return;
    } finally {
      this._loading = false;
    }
    await this._scrolled(); // A page may add less than a screen, and then nothing scrolls that would ask for the next.
  }

  /** Changes what is shown and keeps what one looks at where it is, while messages come and go above it. */
  _steadily(change) {
    const shift = this._sheet.shiftBy(() => {
      change();
      this.render();
    }, this._scroller.getBoundingClientRect().top);
    if (!this._following) this._scroller.scrollTop += shift;
  }

  /** Takes an event of the run; what it changes is drawn with the next frame. */
  take(event) {
    const change = this.transcript.take(event);
    if (change) this.schedule(change);
  }

  schedule(change) {
    this._change = this._change === "all" ? "all" : change;
    this._frame ??= requestAnimationFrame(() => {
      this._frame = null;
      const what = this._change;
      this._change = null;
      if (what !== "text" || !this._sheet.grow([...this.transcript.live.values()])) this.render();
      this._follow();
    });
  }

  _follow() {
    if (this._following) this._scroller.scrollTop = this._scroller.scrollHeight;
  }

  render() {
    this._sheet.show(this._wanted());
    this._follow();
    this._scrolledLater();
  }

  _scrolledLater() {
    // A page that does not fill the window has no scrollbar to ask for more with.
    if (this.transcript.hasOlder && this._scroller.scrollHeight <= this._scroller.clientHeight + NEAR) this._scrolled();
  }

  _wanted() {
    const { transcript } = this;
    const view = new View(transcript, { interrupts: this.interrupts, busy: this.busy, unfolded: this._unfolded, deeds: this.deeds, render: () => this.render() });
    const list = [];
    if (!this.threadId) return [this._item("welcome", "0", () => this.deeds.welcome())];
    if (transcript.hasOlder) list.push(this._item("older", "0", () => h("p", { class: "loading" }, t("loading"))));
    const markers = transcript.shownMarkers();
    for (const entry of view.shown()) {
      while (markers.length && entry.seq !== null && markers[0].after_seq < entry.seq) list.push(this._marker(markers.shift()));
      list.push(this._message(entry, view));
    }
    if (!transcript.hasNewer) list.push(...markers.map((marker) => this._marker(marker)), ...this._ending());
    return list;
  }

  _marker(marker) {
    const key = `marker:${marker.compaction_id}`;
    const stamp = JSON.stringify([marker, this._unfolded.has(key)]);
    return this._item(key, stamp, () => markerNode(marker, this.deeds, this._keeper(key)));
  }

  _message(entry, view) {
    const calls = (entry.message.tool_calls ?? []).map((call) => [view.resultOf(call.id)?.id, view.waits(call.id), view.delegation(call.id)?.status, view.nested(call.id)?.map((one) => one.version).join()].join(":"));
    const unfolded = [...this._unfolded].filter((key) => key.includes(entry.key) || key.endsWith(":all")).join();
    const stamp = [entry.version, entry.seq, entry.archived, entry.pinned, Boolean(entry.html), this.busy && calls.length > 0, calls.join("|"), unfolded.length].join("/");
    return this._item(entry.key, stamp, () => messageNode(entry, view));
  }

  /** What stands behind the last message: a compaction under way, a waiting question, an error, that somebody is at work. */
  _ending() {
    const list = [];
    const { progress } = this.transcript;
    if (progress) list.push(this._item("progress", JSON.stringify(progress), () => progressNode(progress)));
    for (const interrupt of this.interrupts) {
      list.push(this._item(`interrupt:${interrupt.id}`, "0", () => interruptNode(interrupt, this.deeds)));
    }
    if (this.busy) list.push(this._item("busy", "0", () => h("p", { class: "working", role: "status" }, h("span", { class: "pulse" }), t("working"))));
    if (this.error) list.push(this._item("error", this.error, () => h("p", { class: "failure", role: "alert" }, h("strong", {}, t("runFailed")), " ", this.error, " ", button(t("goOn"), { class: "link", onclick: () => this.deeds.goOn() }))));
    return list;
  }

  _keeper(key) {
    return {
      open: this._unfolded.has(key),
      keep: (open) => (open ? this._unfolded.add(key) : this._unfolded.delete(key)),
    };
  }

  _item(key, stamp, build) {
    return { key, stamp, build };
  }
}
