/** What a message has to know of the conversation around it to be shown: results of its calls, what waits, what is unfolded. */

export class View {
  /** `transcript` and `interrupts` as they are now; `unfolded`: keys, changed by hand; `deeds`: copy, pin, edit, retry. */
  constructor(transcript, { interrupts, busy, unfolded, deeds, render }) {
    const entries = transcript.entries();
    this.busy = busy;
    this.unfolded = unfolded;
    this.copy = deeds.copy;
    this.pin = deeds.pin;
    this.edit = deeds.edit;
    this.retry = deeds.retry;
    this._transcript = transcript;
    this._render = render;
    this._results = resultsOf(entries);
    const newest = interrupts.length ? entries.findLast((entry) => entry.message.type === "ai") : null;
    this._asking = new Set(newest?.message.tool_calls?.map((call) => call.id));
  }

  /** Results stand inside their calls; those of calls that are not loaded stand alone. */
  shown() {
    const entries = this._transcript.entries();
    const calls = new Set(entries.flatMap((entry) => (entry.message.tool_calls ?? []).map((call) => call.id)));
    return entries.filter((entry) => entry.message.type !== "tool" || !calls.has(entry.message.tool_call_id));
  }

  keep = (key, open) => (open ? this.unfolded.add(key) : this.unfolded.delete(key));

  unfold = (key) => {
    this.unfolded.add(key);
    this._render();
  };

  resultOf = (id) => this._results.get(id) ?? null;

  /** Whether the run stands still at this call until the person says something: a question's result is the question. */
  waits = (id) => this._asking.has(id) && (!this._results.has(id) || isOpenQuestion(this._results.get(id)));

  delegation = (id) => this._transcript.delegations.get(id) ?? null;

  nested = (id) => (this._transcript.nested.has(id) ? [...this._transcript.nested.get(id).values()] : null);

  nestedResult = (id) => {
    const within = resultsOf(this.nested(id));
    return (call) => within.get(call) ?? null;
  };
}

const isOpenQuestion = ({ artifact }) => Boolean(artifact?.human_input && !artifact.human_input_response);

function resultsOf(entries) {
  return new Map(entries.filter((entry) => entry.message.type === "tool").map((entry) => [entry.message.tool_call_id, entry.message]));
}
