// @langchain/react 1.x: the hook that speaks thread streams (v2).
import { baseUrl, ids, kind, mounted, page, pause, scenarios, text, texts, within } from "./lib.mjs";

page();
const { useChannel, useMessageMetadata, useMessages, useStream } = await import("@langchain/react");
const { Client } = await import("@langchain/langgraph-sdk");

const client = new Client({ apiUrl: baseUrl });
const human = (content) => ({ messages: [{ type: "human", content }] });
const open = (threadId, more = {}) =>
  mounted(() => useStream({ apiUrl: baseUrl, assistantId: "agent", threadId, ...more }));
const idle = (s) => !s.isLoading;
const answered = (s) => idle(s) && s.messages.length > 0 && kind(s.messages.at(-1)) === "ai";

/** How a message grew on the way, seen from outside. */
const growth = (seen, id) => [
  ...new Set(seen.map((s) => text(s.messages.find((m) => m.id === id) ?? { content: "" }))),
];

await scenarios({
  async submit() {
    let created, completed;
    const hook = await open(undefined, {
      onCreated: (run) => (created = run.runId),
      onCompleted: (run) => (completed = run),
    });
    await hook.now().submit(human("/slow 30"));
    const end = await hook.until(answered, "the answer");
    const grown = growth(hook.seen, end.messages.at(-1).id);
    const state = await client.threads.getState(end.threadId);
    await pause(50);
    hook.unmount();
    return {
      messages: texts(end.messages),
      steps: grown.length,
      prefixes: grown.every((part) => grown.at(-1).startsWith(part)),
      sameIds: JSON.stringify(ids(end.messages)) === JSON.stringify(ids(state.values.messages)),
      error: end.error ?? null,
      created: typeof created,
      completed: completed?.reason,
    };
  },

  async second_turn() {
    const hook = await open();
    await hook.until(idle, "mounted");
    await hook.now().submit(human("first"));
    await hook.until(answered, "the first answer");
    await hook.now().submit(human("second"));
    const end = await hook.until((s) => idle(s) && s.messages.length === 4, "the second answer");
    hook.unmount();
    return { kinds: end.messages.map(kind), distinct: new Set(ids(end.messages)).size };
  },

  async tool_calls() {
    const hook = await open();
    await hook.until(idle, "mounted");
    hook.now().submit(human('/tool list_files {}'));
    const end = await hook.until((s) => answered(s) && s.toolCalls.length > 0, "the tool");
    hook.unmount();
    return {
      kinds: end.messages.map(kind),
      calls: end.toolCalls.map((call) => [call.name, call.status, call.args]),
      statuses: [...new Set(hook.seen.flatMap((s) => s.toolCalls.map((call) => call.status)))],
    };
  },

  async subagent() {
    let inner;
    const hook = await mounted(() => {
      const stream = useStream({ apiUrl: baseUrl, assistantId: "agent" });
      const first = [...stream.subagents.values()][0];
      inner = useMessages(stream, first);
      return { ...stream, inner };
    });
    await hook.until(idle, "mounted");
    const task = { description: "look around", prompt: "/slow 25", subagent_type: "general-purpose" };
    hook.now().submit(human(`/tool task ${JSON.stringify(task)}`));
    await hook.until((s) => answered(s) && s.messages.length === 4, "the answer");
    const end = await hook.until((s) => s.inner.some((m) => kind(m) === "ai" && text(m).length > 60), "what the subagent said");
    hook.unmount();
    return {
      kinds: end.messages.map(kind),
      subagents: [...end.subagents.values()].map((s) => [s.name, s.status, s.namespace[0].split(":")[0], s.taskInput]),
      subgraphs: [...end.subgraphs.values()].map((s) => [s.nodeName ?? s.name, s.status]),
      inner: end.inner.map(kind),
    };
  },

  async stop() {
    const hook = await open();
    await hook.until(idle, "mounted");
    hook.now().submit(human("/slow 200"));
    await hook.until((s) => s.messages.some((m) => kind(m) === "ai" && text(m).length > 20), "first words");
    const { threadId } = hook.now();
    await hook.now().stop();
    await hook.until(idle, "stopped");
    const runs = await within(settled(threadId), "the run ends");
    hook.unmount();
    return { statuses: runs.map((run) => run.status), thread: (await client.threads.get(threadId)).status };
  },

  async error() {
    let reported;
    const hook = await open();
    await hook.until(idle, "mounted");
    hook.now().submit(human("/error the moon is full"), { onError: (error) => (reported = error?.message) });
    const end = await hook.until((s) => idle(s) && s.error != null, "the error");
    // Both connections tell of the end. This version takes the second for the end of a run that is submitted in between.
    await pause(500);
    hook.now().submit(human("are you well again?"));
    const after = await hook.until((s) => answered(s) && s.error == null, "the next answer");
    hook.unmount();
    return { error: end.error.message, reported, after: text(after.messages.at(-1)).includes("well again") };
  },

  async interrupt() {
    const hook = await open();
    await hook.until(idle, "mounted");
    hook.now().submit(human('/tool ask_clarification {"question": "Which colour?"}'));
    const asked = await hook.until((s) => idle(s) && s.interrupt != null, "the question");
    hook.now().respond("blue");
    const end = await hook.until((s) => answered(s) && s.interrupt == null, "the answer");
    hook.unmount();
    return {
      question: asked.interrupt.value.question,
      asked: asked.interrupts.length,
      kinds: end.messages.map(kind),
      heard: texts(end.messages).some(([, said]) => said.includes("blue")),
      error: end.error ?? null,
    };
  },

  async answer_after_reload() {
    const first = await open();
    await first.until(idle, "mounted");
    first.now().submit(human('/tool ask_clarification {"question": "Which colour?"}'));
    const { threadId } = await first.until((s) => idle(s) && s.interrupt != null, "the question");
    first.unmount();
    const hook = await open(threadId);
    const asked = await hook.until((s) => !s.isThreadLoading && s.interrupt != null && idle(s), "the question again");
    hook.now().respond("green", { interruptId: asked.interrupt.id });
    const end = await hook.until((s) => answered(s) && s.interrupt == null, "the answer");
    hook.unmount();
    return { question: asked.interrupt.value.question, heard: texts(end.messages).some(([, said]) => said.includes("green")), interrupts: end.interrupts.length };
  },

  async regenerate() {
    let parents = new Map();
    const hook = await mounted(() => {
      const stream = useStream({ apiUrl: baseUrl, assistantId: "agent" });
      const last = stream.messages.at(-1);
      const metadata = useMessageMetadata(stream, last?.id);
      if (metadata?.parentCheckpointId) parents.set(last.id, metadata.parentCheckpointId);
      return stream;
    });
    await hook.until(idle, "mounted");
    hook.now().submit(human("one"));
    await hook.until(answered, "the answer");
    hook.now().submit(human("two"));
    const before = await hook.until((s) => answered(s) && s.messages.length === 4, "the second answer");
    const old = before.messages.at(-1).id;
    hook.now().submit(null, { forkFrom: parents.get(old) });
    const end = await hook.until((s) => answered(s) && s.messages.length === 4 && s.messages.at(-1).id !== old, "another answer");
    const state = await client.threads.getState(end.threadId);
    hook.unmount();
    return {
      known: parents.has(old),
      kinds: end.messages.map(kind),
      kept: JSON.stringify(ids(end.messages).slice(0, 3)) === JSON.stringify(ids(before.messages).slice(0, 3)),
      sameAsState: JSON.stringify(ids(end.messages)) === JSON.stringify(ids(state.values.messages)),
    };
  },

  async join_after_reload() {
    const first = await open();
    await first.until(idle, "mounted");
    first.now().submit(human("earlier"));
    await first.until(answered, "an earlier answer");
    first.now().submit(human("/slow 60"));
    const running = await first.until((s) => text(s.messages.at(-1)).length > 30 && s.messages.length === 4, "first words");
    const second = await open(running.threadId);
    const joined = await second.until((s) => s.isLoading && s.messages.length === 4, "the run that goes on");
    const end = await second.until((s) => idle(s) && s.messages.length === 4, "its end");
    const whole = await first.until((s) => idle(s) && s.messages.length === 4, "its end, for the first");
    const grown = growth(second.seen, end.messages.at(-1).id).filter((part) => part);
    const state = await client.threads.getState(end.threadId);
    first.unmount();
    second.unmount();
    return {
      loading: joined.isLoading,
      same: JSON.stringify(texts(end.messages)) === JSON.stringify(texts(whole.messages)),
      asSaved: JSON.stringify(texts(end.messages)) === JSON.stringify(texts(state.values.messages)),
      prefixes: grown.every((part) => grown.at(-1).startsWith(part)),
      steps: grown.length,
    };
  },

  async run_of_v1() {
    const { thread_id: threadId } = await client.threads.create();
    await client.runs.wait(threadId, "agent", { input: human("before") });
    const run = await client.runs.create(threadId, "agent", { input: human("/slow 80") });
    // The hook opens no stream on a thread whose state says that nothing is to be done.
    while ((await client.threads.getState(threadId)).next.length === 0) await pause(20);
    const hook = await open(threadId);
    await hook.until((s) => s.isLoading && text(s.messages.at(-1) ?? { content: "" }).length > 30, "its words");
    const end = await hook.until((s) => idle(s) && s.messages.length === 4, "its end");
    hook.unmount();
    return { kinds: end.messages.map(kind), steps: growth(hook.seen, end.messages.at(-1).id).length, run: (await client.runs.get(threadId, run.run_id)).status };
  },

  async compaction() {
    let told = [];
    const hook = await mounted(() => {
      const stream = useStream({ apiUrl: baseUrl, assistantId: "agent" });
      told = useChannel(stream, ["custom"]);
      return { ...stream, told };
    });
    await hook.until(idle, "mounted");
    for (let turn = 1; turn <= 6 && told.length === 0; turn += 1) {
      hook.now().submit(human(`turn ${turn}: ${"many words about the harbour. ".repeat(60)}`));
      await hook.until((s) => answered(s) && texts(s.messages).some(([, said]) => said.includes(`turn ${turn}:`)), `turn ${turn}`);
    }
    const end = await hook.until((s) => s.told.length > 0, "a notice");
    hook.unmount();
    return { notices: end.told.map((event) => event.params.data.payload.type), names: end.told.map((event) => event.params.data.name) };
  },

  async websocket() {
    const hook = await open(undefined, { transport: "websocket" });
    await hook.until(idle, "mounted");
    hook.now().submit(human("/slow 30"));
    const end = await hook.until(answered, "the answer");
    const grown = growth(hook.seen, end.messages.at(-1).id);
    hook.unmount();
    return { messages: texts(end.messages), steps: grown.length, error: end.error ?? null };
  },
});

async function settled(threadId) {
  for (;;) {
    const runs = await client.runs.list(threadId);
    if (runs.every((run) => !["pending", "running"].includes(run.status))) return runs;
    await pause(50);
  }
}
