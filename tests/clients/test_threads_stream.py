"""``client.threads.stream()`` of the Python SDK: thread streams (v2) over server-sent events and WebSockets."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any, Literal, TypeVar

import pytest

from tests.support.gateway import Gateway

pytestmark = pytest.mark.asyncio(loop_scope="module")

QUESTION = '/tool ask_clarification {"question": "Which colour?"}'
T = TypeVar("T")
Transport = Literal["sse", "websocket"]
TRANSPORTS = pytest.mark.parametrize("transport", ["sse", "websocket"])


def human(text: str) -> dict[str, Any]:
    return {"messages": [{"role": "user", "content": text}]}


async def read(items: AsyncIterator[Any], how: Callable[[Any], Awaitable[T]]) -> list[T]:
    """Read each item while the next ones come: the client hands on what arrives only while it is asked for items."""
    async with asyncio.TaskGroup() as reading:
        tasks = [reading.create_task(_awaited(how, item)) async for item in items]
    return [task.result() for task in tasks]


async def _awaited(how: Callable[[Any], Awaitable[T]], item: Any) -> T:
    return await how(item)


async def tokens(message: Any) -> list[str]:
    return [token async for token in message.text]


@TRANSPORTS
async def test_a_run_is_started_and_its_values_are_those_of_the_state(
    served: Gateway, transport: Transport
) -> None:
    async with (
        asyncio.timeout(20),
        served.client().threads.stream(assistant_id="agent", transport=transport) as thread,
    ):
        result = await thread.run.start(input=human("hello there"))
        values = await thread.output

    assert result["run_id"]
    assert [message["type"] for message in values["messages"]] == ["human", "ai"]


@TRANSPORTS
async def test_messages_are_streamed_token_by_token(served: Gateway, transport: Transport) -> None:
    async with (
        asyncio.timeout(20),
        served.client().threads.stream(assistant_id="agent", transport=transport) as thread,
    ):
        await thread.run.start(input=human("/slow 20"))
        streamed = await read(aiter(thread.messages), tokens)
        values = await thread.output

    assert len(streamed) == 1
    assert len(streamed[0]) > 20
    assert "".join(streamed[0]) == values["messages"][-1]["content"]


async def test_turns_on_one_thread_each_wait_for_their_own_run(served: Gateway) -> None:
    client = served.client()
    thread_id = (await client.threads.create())["thread_id"]
    lengths = []
    for text in ("first", "/slow 8", "third"):
        async with (
            asyncio.timeout(20),
            client.threads.stream(thread_id=thread_id, assistant_id="agent") as thread,
        ):
            await thread.run.start(input=human(text))
            lengths.append(len((await thread.output)["messages"]))

    assert lengths == [2, 4, 6]


async def test_tool_calls_come_with_their_results(served: Gateway) -> None:
    async with (
        asyncio.timeout(20),
        served.client().threads.stream(assistant_id="agent") as thread,
    ):
        await thread.run.start(input=human("/tool list_files {}"))
        calls = await read(aiter(thread.tool_calls), _result)

    assert [(name, given) for name, given, _ in calls] == [("list_files", {})]
    assert calls[0][2]["content"] == "[empty]"


async def test_a_subagent_is_a_graph_of_its_own(served: Gateway) -> None:
    task = '{"description": "look", "prompt": "/slow 5", "subagent_type": "general-purpose"}'
    async with (
        asyncio.timeout(20),
        served.client().threads.stream(assistant_id="agent") as thread,
    ):
        await thread.run.start(input=human(f"/tool task {task}"))
        found = await read(aiter(thread.subgraphs), _said)
        tree = await _command(served, thread.thread_id, "agent.getTree")

    assert [(node, said[0].endswith("3 4 5")) for node, said in found] == [("tools", True)]
    assert tree["result"]["tree"]["status"] == "completed"
    assert [child["graph_name"] for child in tree["result"]["tree"]["children"]] == ["general-purpose"]


@TRANSPORTS
async def test_a_question_is_answered(served: Gateway, transport: Transport) -> None:
    async with (
        asyncio.timeout(20),
        served.client().threads.stream(assistant_id="agent", transport=transport) as thread,
    ):
        await thread.run.start(input=human(QUESTION))
        async for _ in thread.messages:
            pass
        asked = list(thread.interrupts)
        await thread.run.respond("blue")
        values = await thread.output

    assert asked[0]["value"]["question"] == "Which colour?"
    assert "blue" in str(values["messages"])


async def test_who_comes_back_to_a_question_can_answer_it(served: Gateway) -> None:
    client = served.client()
    thread_id = (await client.threads.create())["thread_id"]
    await client.runs.wait(thread_id, "agent", input=human(QUESTION))
    async with (
        asyncio.timeout(20),
        client.threads.stream(thread_id=thread_id, assistant_id="agent") as thread,
    ):
        async for _ in thread.subscribe(["input"]):
            break
        while not thread.interrupts:
            await asyncio.sleep(0.01)
        await thread.run.respond("red")
        values = await thread.output

    assert "red" in str(values["messages"])


async def test_an_error_of_the_run_is_raised(served: Gateway) -> None:
    async with (
        asyncio.timeout(20),
        served.client().threads.stream(assistant_id="agent") as thread,
    ):
        await thread.run.start(input=human("/error the moon is full"))
        with pytest.raises(RuntimeError, match="the moon is full"):
            await thread.output


async def test_a_run_that_goes_on_is_joined_in_its_midst(served: Gateway) -> None:
    client = served.client()
    thread_id = (await client.threads.create())["thread_id"]
    await client.runs.wait(thread_id, "agent", input=human("before"))
    await client.runs.create(thread_id, "agent", input=human("/slow 20"))
    async with (
        asyncio.timeout(20),
        client.threads.stream(thread_id=thread_id, assistant_id="agent") as thread,
    ):
        said = await read(aiter(thread.messages), tokens)
        values = await thread.output

    assert [len(streamed) > 20 for streamed in said] == [True]
    assert "".join(said[0]) == values["messages"][-1]["content"]
    assert len(values["messages"]) == 4


async def _result(call: Any) -> tuple[str, Any, Any]:
    return call.name, call.input, await call.output


async def _said(subgraph: Any) -> tuple[str, list[str]]:
    said = await read(aiter(subgraph.messages), tokens)
    return subgraph.path[0].partition(":")[0], ["".join(streamed) for streamed in said]


async def _command(served: Gateway, thread_id: str, method: str, **params: Any) -> Any:
    async with served.http() as http:
        body = {"id": 1, "method": method, "params": params}
        return (await http.post(f"/threads/{thread_id}/commands", json=body)).json()
