// @langchain/langgraph-sdk: the client, without a page.
import { Client } from "@langchain/langgraph-sdk";
import { baseUrl, pause, scenarios } from "./lib.mjs";

const client = new Client({ apiUrl: baseUrl });
const human = (content) => ({ messages: [{ type: "human", content }] });
const collect = async (stream) => {
  const events = [];
  for await (const event of stream) events.push(event);
  return events;
};
const newThread = async () => (await client.threads.create()).thread_id;

await scenarios({
  async threads() {
    const made = await client.threads.create({ metadata: { colour: "blue" } });
    const patched = await client.threads.update(made.thread_id, { metadata: { shade: "dark" } });
    const found = await client.threads.search({ metadata: { shade: "dark" }, limit: 5 });
    const count = await client.threads.count({ metadata: { shade: "dark" } });
    const copy = await client.threads.copy(made.thread_id);
    await client.threads.delete(made.thread_id);
    const gone = await client.threads.get(made.thread_id).catch((error) => error.status ?? error.message);
    return { metadata: patched.metadata, found: found.map((t) => t.thread_id === made.thread_id), count, copied: copy.thread_id !== made.thread_id, gone };
  },

  async state() {
    const thread = await newThread();
    const empty = await client.threads.getState(thread);
    await client.threads.updateState(thread, { values: human("written by hand") });
    const written = await client.threads.getState(thread);
    await client.runs.wait(thread, "agent", { input: human("and now") });
    const history = await client.threads.getHistory(thread, { limit: 3 });
    const earlier = await client.threads.getState(thread, history[1].checkpoint);
    return {
      empty: [empty.next, Object.keys(empty.values), empty.checkpoint],
      written: written.values.messages.map((m) => m.content),
      history: history.length,
      earlier: earlier.checkpoint.checkpoint_id === history[1].checkpoint.checkpoint_id,
    };
  },

  async stream() {
    const thread = await newThread();
    let created;
    const events = await collect(
      client.runs.stream(thread, "agent", {
        input: human("/slow 12"),
        streamMode: ["values", "updates", "messages-tuple", "custom"],
        streamSubgraphs: true,
        onRunCreated: (run) => (created = run),
      }),
    );
    const run = await client.runs.get(thread, created.run_id);
    return {
      kinds: [...new Set(events.map((event) => event.event))].sort(),
      tokens: events.filter((event) => event.event === "messages").length,
      same: events[0].data.run_id === created.run_id,
      status: run.status,
    };
  },

  async join() {
    const thread = await newThread();
    const run = await client.runs.create(thread, "agent", { input: human("/slow 20"), streamMode: ["values", "messages-tuple"] });
    const whole = await collect(client.runs.joinStream(thread, run.run_id));
    const middle = whole[Math.floor(whole.length / 2)].id;
    const rest = await collect(client.runs.joinStream(thread, run.run_id, { lastEventId: middle }));
    const values = await client.runs.join(thread, run.run_id);
    const filtered = await collect(client.runs.joinStream(thread, run.run_id, { streamMode: "values" }));
    return {
      continues: JSON.stringify(rest) === JSON.stringify(whole.slice(whole.findIndex((e) => e.id === middle) + 1)),
      ordered: whole.every((event, i) => i === 0 || Number(event.id) > Number(whole[i - 1].id)),
      messages: values.messages.length,
      filtered: [...new Set(filtered.map((event) => event.event))].sort(),
    };
  },

  async join_a_run_of_a_thread_stream() {
    const thread = client.threads.stream({ assistantId: "agent" });
    const { run_id: run } = await thread.run.start({ input: human("/slow 10") });
    const events = await collect(client.runs.joinStream(thread.threadId, run));
    await thread.close();
    return {
      kinds: [...new Set(events.map((event) => event.event))].sort(),
      tokens: events.filter((event) => event.event === "messages").length > 10,
    };
  },

  async cancel() {
    const thread = await newThread();
    const run = await client.runs.create(thread, "agent", { input: human("/slow 200") });
    await client.runs.cancel(thread, run.run_id, true);
    const { status } = await client.runs.get(thread, run.run_id);
    const again = await client.runs.cancel(thread, run.run_id).catch((error) => error.status);
    return { status, again };
  },

  async interrupt_and_resume() {
    const thread = await newThread();
    const asked = await client.runs.wait(thread, "agent", { input: human('/tool ask_clarification {"question": "Which?"}') });
    const { status, interrupts } = await client.threads.get(thread);
    const answered = await client.runs.wait(thread, "agent", { command: { resume: "that one" } });
    return {
      asked: asked.__interrupt__[0].value.question,
      status,
      interrupts: Object.keys(interrupts).length,
      heard: answered.messages.some((m) => JSON.stringify(m.content).includes("that one")),
      after: (await client.threads.get(thread)).status,
    };
  },

  async error() {
    const thread = await newThread();
    const events = await collect(client.runs.stream(thread, "agent", { input: human("/error oh no") }));
    const thrown = await client.runs.wait(thread, "agent", { input: human("/error oh no") }).catch((error) => error.message);
    return { event: events.find((e) => e.event === "error").data.message, thrown };
  },

  async strategies() {
    const thread = await newThread();
    const first = await client.runs.create(thread, "agent", { input: human("/slow 200") });
    const rejected = await client.runs
      .create(thread, "agent", { input: human("x"), multitaskStrategy: "reject" })
      .catch((error) => error.status);
    const second = await client.runs.create(thread, "agent", { input: human("quick"), multitaskStrategy: "interrupt" });
    await client.runs.join(thread, second.run_id);
    return {
      rejected,
      first: (await client.runs.get(thread, first.run_id)).status,
      second: (await client.runs.get(thread, second.run_id)).status,
    };
  },

  async fork() {
    const thread = await newThread();
    await client.runs.wait(thread, "agent", { input: human("one") });
    const before = (await client.threads.getHistory(thread, { limit: 20 })).find((s) => s.next.includes("model"));
    const values = await client.runs.wait(thread, "agent", { input: null, checkpointId: before.checkpoint.checkpoint_id });
    return { messages: values.messages.map((m) => m.type) };
  },

  async stateless() {
    const values = await client.runs.wait(null, "agent", { input: human("no thread") });
    const events = await collect(client.runs.stream(null, "agent", { input: human("no thread"), streamMode: "values" }));
    return { messages: values.messages.length, last: events.at(-1).event };
  },

  async store() {
    const name = ["people", `p${Date.now()}`];
    await client.store.putItem(name, "shoes", { size: 43 });
    const item = await client.store.getItem(name, "shoes");
    const found = await client.store.searchItems(name);
    const spaces = await client.store.listNamespaces({ prefix: ["people"] });
    await client.store.deleteItem(name, "shoes");
    return { value: item.value, found: found.items.length, listed: spaces.namespaces.some((n) => n[1] === name[1]), after: (await client.store.getItem(name, "shoes")) ?? null };
  },

  async assistants() {
    const [assistant] = await client.assistants.search({ graphId: "agent" });
    const graph = await client.assistants.getGraph(assistant.assistant_id);
    const schemas = await client.assistants.getSchemas(assistant.assistant_id);
    return { graph: assistant.graph_id, nodes: graph.nodes.length > 2, schemas: Object.keys(schemas).includes("state_schema") };
  },

  async thread_stream() {
    const thread = client.threads.stream({ assistantId: "agent" });
    await thread.run.start({ input: human("/tool list_files {}") });
    const said = [];
    const messages = (async () => {
      for await (const message of thread.messages) said.push(await message.text);
    })();
    const calls = [];
    const tools = (async () => {
      for await (const call of thread.toolCalls) calls.push([call.name, (await call.output).content ?? (await call.output)]);
    })();
    const output = await thread.output;
    await Promise.race([Promise.all([messages, tools]), pause(3000)]);
    const { tree } = await thread.agent.getTree();
    await thread.close();
    return { said: said.length, calls, kinds: output.messages.map((m) => m.getType?.() ?? m.type), tree: [tree.graph_name, tree.status] };
  },

  async refusals() {
    const thread = client.threads.stream({ assistantId: "nobody" });
    const unknown = await thread.run.start({ input: human("x") }).catch((error) => [error.code, error.message]);
    await thread.close();
    const other = client.threads.stream(await newThread(), { assistantId: "agent" });
    const nothing = await other.input
      .respond({ namespace: [], interrupt_id: "nope", response: 1 })
      .catch((error) => error.code);
    const injected = await other.input.inject({ namespace: [], message: { role: "user", content: "x" } }).catch((error) => error.code);
    await other.close();
    return { unknown: unknown[0], named: unknown[1].includes("nobody"), nothing, injected };
  },
});
