"""The todo list of an agent, over HTTP."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from tests.support.gateway import Gateway, serving
from tests.support.rig import SMALL, rigged
from tests.support.threads import new_thread, talk

TODOS = [
    {"content": "measure the beds", "status": "completed"},
    {"content": "order seeds", "status": "in_progress"},
]


def asking(*lists: Sequence[Mapping[str, Any]]) -> str:
    """A message that makes the demo model write these lists, all at once."""
    return "\n".join(f"/tool write_todos {json.dumps({'todos': todos})}" for todos in lists)


def said(text: str) -> dict[str, Any]:
    return {"messages": [{"role": "user", "content": text}]}


async def test_the_list_is_part_of_the_state_and_threads_are_found_by_it(gateway: Gateway) -> None:
    client = gateway.client()
    thread_id, other_id = [(await client.threads.create())["thread_id"] for _ in range(2)]
    values = await client.runs.wait(thread_id, "agent", input=said(asking(TODOS)))
    await client.runs.wait(other_id, "agent", input=said("hello"))
    assert values["todos"] == TODOS
    assert (await client.threads.get(thread_id))["values"]["todos"] == TODOS
    found = await client.threads.search(values={"todos": [{"content": "order seeds"}]})
    assert [thread["thread_id"] for thread in found] == [thread_id]


async def test_a_later_list_replaces_the_earlier_one(gateway: Gateway) -> None:
    client = gateway.client()
    thread_id = (await client.threads.create())["thread_id"]
    await client.runs.wait(thread_id, "agent", input=said(asking(TODOS)))
    values = await client.runs.wait(thread_id, "agent", input=said(asking(TODOS[1:])))
    assert values["todos"] == TODOS[1:]


async def test_of_two_lists_at_once_neither_counts(gateway: Gateway) -> None:
    client = gateway.client()
    thread_id = (await client.threads.create())["thread_id"]
    await client.runs.wait(thread_id, "agent", input=said(asking(TODOS)))
    values = await client.runs.wait(thread_id, "agent", input=said(asking(TODOS[:1], TODOS[1:])))
    results = [message for message in values["messages"] if message["type"] == "tool"]
    assert [result["status"] for result in results] == ["success", "error", "error"]
    assert values["todos"] == TODOS


async def test_list_and_title_outlive_a_manual_compaction(gateway: Gateway) -> None:
    async with new_thread(gateway, talk(40)) as thread:
        await thread.run(asking(TODOS))
        assert (await thread.compacted(keep={"type": "messages", "value": 4}))["compacted"]
        values = await thread.values()
        assert (values["todos"], values["title"][:18]) == (TODOS, "Question 0: 0w000 ")


async def test_clients_cannot_write_the_list_with_the_input_of_a_run(gateway: Gateway) -> None:
    client = gateway.client()
    thread_id = (await client.threads.create())["thread_id"]
    values = await client.runs.wait(thread_id, "agent", input={**said("hello"), "todos": TODOS})
    assert "todos" not in values


async def test_an_agent_without_the_tool_is_not_offered_it(tmp_path: Path, database_url: str) -> None:
    agents = [{"name": "agent", "tools": ["read_file"]}, {"name": "planner", "tools": ["write_todos"]}]
    async with serving(tmp_path, database_url, {"agents": agents}) as gateway:
        client = gateway.client()
        bound = {}
        for name in ("agent", "planner"):
            thread_id = (await client.threads.create())["thread_id"]
            values = await client.runs.wait(thread_id, name, input=said("/tool nothing {}"))
            bound[name] = values["messages"][-1]["content"]
    assert "(bound: read_file)" in bound["agent"]
    assert "(bound: write_todos)" in bound["planner"]


async def test_the_system_prompt_is_one_text_and_the_same_before_and_after_a_list(
    tmp_path: Path, database_template: str
) -> None:
    agents = [{"name": "agent", "tools": ["write_todos"]}]
    async with (
        rigged(tmp_path, database_template, SMALL, agents=agents) as rig,
        new_thread(rig.gateway) as thread,
    ):
        rig.provider.tool_call("write_todos", {"todos": TODOS})
        await thread.run("plan the garden")
        await thread.run("and now?")
        leads = [request.messages[0] for request in rig.agent_calls()]
        tools = [json.dumps(request.body["tools"]) for request in rig.agent_calls()]
    assert len(leads) == 3
    assert all(isinstance(lead["content"], str) for lead in leads)
    assert leads == leads[:1] * 3
    assert tools == tools[:1] * 3
