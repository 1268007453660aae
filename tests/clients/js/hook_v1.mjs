// @langchain/langgraph-sdk/react: the hook that speaks the streams of runs (v1).
import { baseUrl, ids, kind, mounted, page, pause, scenarios, text, texts } from "./lib.mjs";

page();
const { useStream } = await import("@langchain/langgraph-sdk/react");
const { Client } = await import("@langchain/langgraph-sdk");
const { useState } = await import("react");

const client = new Client({ apiUrl: baseUrl });
const human = (content) => ({ messages: [{ type: "human", content }] });
const answered = (s) => !s.isLoading && s.messages.length > 0 && kind(s.messages.at(-1)) === "ai";

/** The hook as applications use it: the thread's id is theirs. `bare` has no history. */
const open = (threadId = null, more = {}) =>
  mounted(() => {
    const [id, setId] = useState(threadId);
    const stream = useStream({
      apiUrl: baseUrl,
      assistantId: "agent",
      threadId: id,
      onThreadId: setId,
      fetchStateHistory: true,
      messagesKey: "messages",
      ...more,
    });
    return { ...read(stream), id, stream };
  });

// The object that the hook returns computes its fields when they are read.
const read = (stream) => ({
  messages: stream.messages,
  isLoading: stream.isLoading,
  error: stream.error,
  interrupt: stream.interrupt,
  values: stream.values,
});
const growth = (seen, id) => [
  ...new Set(seen.map((s) => text(s.messages.find((m) => m.id === id) ?? { content: "" }))),
];

await scenarios({
  async submit() {
    const hook = await open();
    hook.now().stream.submit(human("/slow 30"), { streamMode: ["values", "messages-tuple", "custom", "updates"] });
    const end = await hook.until(answered, "the answer");
    const grown = growth(hook.seen, end.messages.at(-1).id);
    const state = await client.threads.getState(end.id);
    hook.unmount();
    return {
      messages: texts(end.messages),
      steps: grown.length,
      prefixes: grown.every((part) => grown.at(-1).startsWith(part)),
      sameIds: JSON.stringify(ids(end.messages)) === JSON.stringify(ids(state.values.messages)),
      error: end.error ?? null,
    };
  },

  async tool_calls() {
    const hook = await open();
    hook.now().stream.submit(human("/tool list_files {}"));
    const end = await hook.until((s) => answered(s) && s.messages.length === 4, "the answer");
    const calls = end.stream.toolCalls ?? [];
    hook.unmount();
    return { kinds: end.messages.map(kind), calls: calls.map((call) => [call.call.name, call.state]) };
  },

  async stop() {
    const hook = await open();
    hook.now().stream.submit(human("/slow 200"), { onDisconnect: "cancel" });
    await hook.until((s) => s.messages.some((m) => kind(m) === "ai" && text(m).length > 20), "first words");
    const { id } = hook.now();
    await hook.now().stream.stop();
    await hook.until((s) => !s.isLoading, "stopped");
    let runs;
    do {
      await pause(50);
      runs = await client.runs.list(id);
    } while (runs.some((run) => ["pending", "running"].includes(run.status)));
    hook.unmount();
    return { statuses: runs.map((run) => run.status) };
  },

  async error() {
    let reported;
    const hook = await open(null, { onError: (error) => (reported = error?.message) });
    hook.now().stream.submit(human("/error the moon is full"));
    const end = await hook.until((s) => !s.isLoading && s.error != null, "the error");
    hook.now().stream.submit(human("well again?"));
    await hook.until((s) => answered(s) && s.error == null, "the next answer");
    hook.unmount();
    return { error: end.error.message, reported };
  },

  async interrupt() {
    const hook = await open();
    hook.now().stream.submit(human('/tool ask_clarification {"question": "Which colour?"}'));
    const asked = await hook.until((s) => !s.isLoading && s.interrupt != null, "the question");
    hook.now().stream.submit(undefined, { command: { resume: "blue" } });
    const end = await hook.until((s) => answered(s) && s.interrupt == null, "the answer");
    hook.unmount();
    return { question: asked.interrupt.value.question, heard: texts(end.messages).some(([, said]) => said.includes("blue")) };
  },

  async regenerate() {
    const hook = await open();
    hook.now().stream.submit(human("one"));
    await hook.until(answered, "the answer");
    hook.now().stream.submit(human("two"));
    const before = await hook.until((s) => answered(s) && s.messages.length === 4, "the second answer");
    const last = before.messages.at(-1);
    const known = await hook.until((s) => s.stream.getMessagesMetadata(last)?.firstSeenState, "its checkpoint");
    const checkpoint = known.stream.getMessagesMetadata(last).firstSeenState.parent_checkpoint;
    hook.now().stream.submit(undefined, { checkpoint });
    const end = await hook.until((s) => answered(s) && s.messages.length === 4 && s.messages.at(-1).id !== last.id, "another");
    const branches = await hook.until((s) => s.stream.getMessagesMetadata(s.messages.at(-1))?.branchOptions?.length === 2, "two branches");
    hook.unmount();
    return {
      kinds: end.messages.map(kind),
      kept: JSON.stringify(ids(end.messages).slice(0, 3)) === JSON.stringify(ids(before.messages).slice(0, 3)),
      branches: branches.stream.getMessagesMetadata(branches.messages.at(-1)).branchOptions.length,
    };
  },

  async join_after_reload() {
    const first = await open(null, { reconnectOnMount: true });
    first.now().stream.submit(human("/slow 60"), { streamResumable: true, onDisconnect: "continue" });
    const { id } = await first.until((s) => text(s.messages.at(-1) ?? { content: "" }).length > 30 && s.messages.length === 2, "first words");
    const kept = sessionStorage.getItem(`lg:stream:${id}`);
    first.unmount();
    sessionStorage.setItem(`lg:stream:${id}`, kept);
    const second = await open(id, { reconnectOnMount: true });
    const joined = await second.until((s) => s.isLoading && s.messages.length === 2, "the run that goes on");
    const end = await second.until((s) => answered(s) && text(s.messages.at(-1)).endsWith(" 60"), "its end");
    const state = await client.threads.getState(id);
    const grown = growth(second.seen, end.messages.at(-1).id).filter((part) => part);
    second.unmount();
    return {
      loading: joined.isLoading,
      asSaved: JSON.stringify(texts(end.messages)) === JSON.stringify(texts(state.values.messages)),
      prefixes: grown.every((part) => grown.at(-1).startsWith(part)),
      steps: grown.length,
    };
  },

  async compaction() {
    const told = [];
    const hook = await open(null, { onCustomEvent: (event) => told.push(event.type) });
    for (let turn = 1; turn <= 6 && told.length === 0; turn += 1) {
      hook.now().stream.submit(human(`turn ${turn}: ${"many words about the harbour. ".repeat(60)}`), { streamMode: ["values", "messages-tuple", "custom"] });
      await hook.until((s) => answered(s) && texts(s.messages).some(([, said]) => said.includes(`turn ${turn}:`)), `turn ${turn}`);
    }
    hook.unmount();
    return { notices: [...new Set(told)] };
  },

  async history_of_an_old_thread() {
    const { thread_id: id } = await client.threads.create();
    await client.runs.wait(id, "agent", { input: human("long ago") });
    const hook = await open(id);
    const end = await hook.until((s) => s.messages.length === 2, "the conversation");
    hook.unmount();
    return { kinds: end.messages.map(kind) };
  },

  async events_of_every_kind() {
    const heard = { update: 0, custom: 0, langchain: 0, debug: 0, checkpoint: 0, task: 0, tool: 0, metadata: 0 };
    const count = (name) => () => (heard[name] += 1);
    const hook = await open(null, {
      onUpdateEvent: count("update"),
      onCustomEvent: count("custom"),
      onLangChainEvent: count("langchain"),
      onDebugEvent: count("debug"),
      onCheckpointEvent: count("checkpoint"),
      onTaskEvent: count("task"),
      onToolEvent: count("tool"),
      onMetadataEvent: count("metadata"),
    });
    hook.now().stream.submit(human("/tool list_files {}"));
    const end = await hook.until((s) => s.error != null || (answered(s) && s.messages.length === 4), "the answer");
    hook.unmount();
    const progress = end.stream.toolProgress;
    return { error: end.error?.message ?? null, progress: progress?.map((tool) => [tool.name, tool.state]), silent: Object.keys(heard).filter((name) => heard[name] === 0) };
  },
});
