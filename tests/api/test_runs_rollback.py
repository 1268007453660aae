"""Taking a run back: the thread is as if it had never been started."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import httpx
import pytest
from langgraph_sdk.errors import NotFoundError

from app.persistence.database import connect
from tests.support.gateway import Gateway, serving
from tests.support.service import DEMO_MODEL

HELLO = {"messages": [{"role": "user", "content": "hello there"}]}
VERY_SLOW = {"messages": [{"role": "user", "content": "/slow 400"}]}


@pytest.fixture(params=["delta", "full"])
async def gateway(request: pytest.FixtureRequest, tmp_path: Path, database_url: str) -> Any:
    async with serving(tmp_path, database_url, {"checkpoint_mode": request.param}) as served:
        yield served


async def streaming(client: Any, thread_id: str, text: dict[str, Any]) -> str:
    """A run that has begun to answer."""
    run = await client.runs.create(thread_id, "agent", input=text, stream_mode="messages-tuple")
    async for part in client.runs.join_stream(thread_id, run["run_id"]):
        if part.event == "messages":
            break
    return str(run["run_id"])


async def test_a_run_taken_back_leaves_neither_messages_nor_checkpoints_nor_itself(gateway: Gateway) -> None:
    client = gateway.client()
    thread_id = (await client.threads.create())["thread_id"]
    await client.runs.wait(thread_id, "agent", input=HELLO)
    before = await client.threads.get_state(thread_id)
    history = [state["checkpoint"] for state in await client.threads.get_history(thread_id, limit=100)]
    run_id = await streaming(client, thread_id, VERY_SLOW)
    await client.runs.cancel(thread_id, run_id, wait=True, action="rollback")
    after = await client.threads.get_state(thread_id)
    assert (after["values"], after["next"], after["checkpoint"]) == (
        before["values"],
        before["next"],
        before["checkpoint"],
    )
    assert [s["checkpoint"] for s in await client.threads.get_history(thread_id, limit=100)] == history
    with pytest.raises(NotFoundError):
        await client.runs.get(thread_id, run_id)
    assert (await client.threads.get(thread_id))["status"] == "idle"


async def test_what_is_said_after_a_run_was_taken_back_is_all_that_is_added(gateway: Gateway) -> None:
    client = gateway.client()
    thread_id = (await client.threads.create())["thread_id"]
    await client.runs.wait(thread_id, "agent", input=HELLO)
    run_id = await streaming(client, thread_id, VERY_SLOW)
    await client.runs.cancel(thread_id, run_id, wait=True, action="rollback")
    await client.runs.wait(thread_id, "agent", input={"messages": [{"role": "user", "content": "next"}]})
    state = await client.threads.get_state(thread_id)
    asked = [m["content"] for m in state["values"]["messages"] if m["type"] == "human"]
    assert asked == ["hello there", "next"]
    assert [m["type"] for m in state["values"]["messages"]] == ["human", "ai"] * 2


async def test_the_first_run_of_a_thread_can_be_taken_back(gateway: Gateway) -> None:
    client = gateway.client()
    thread_id = (await client.threads.create())["thread_id"]
    run_id = await streaming(client, thread_id, VERY_SLOW)
    await client.runs.cancel(thread_id, run_id, wait=True, action="rollback")
    assert (await client.threads.get_state(thread_id))["values"] == {}
    values = await client.runs.wait(thread_id, "agent", input=HELLO)
    assert [m["type"] for m in values["messages"]] == ["human", "ai"]


async def test_a_run_with_strategy_rollback_takes_the_older_one_back(gateway: Gateway) -> None:
    client = gateway.client()
    thread_id = (await client.threads.create())["thread_id"]
    await client.runs.wait(thread_id, "agent", input=HELLO)
    older = await streaming(client, thread_id, VERY_SLOW)
    waiting = await client.runs.create(thread_id, "agent", input=VERY_SLOW)
    values = await client.runs.wait(
        thread_id,
        "agent",
        input={"messages": [{"role": "user", "content": "instead"}]},
        multitask_strategy="rollback",
    )
    assert [m["content"] for m in values["messages"] if m["type"] == "human"] == ["hello there", "instead"]
    known = {run["run_id"] for run in await client.runs.list(thread_id, limit=10)}
    assert known.isdisjoint({older, waiting["run_id"]})


async def test_a_run_that_is_to_be_taken_back_is_so_although_its_work_was_done(
    gateway: Gateway, database_url: str
) -> None:
    client = gateway.client()
    thread_id = (await client.threads.create())["thread_id"]
    await client.runs.wait(thread_id, "agent", input=HELLO)
    before = await client.threads.get_state(thread_id)
    run_id = await streaming(client, thread_id, {"messages": [{"role": "user", "content": "/slow 20"}]})
    async with await connect(database_url) as conn:
        # As when the worker is asked to stop with nothing left to do: it goes on to the run's end.
        await conn.execute("UPDATE runs SET cancel_action = 'rollback' WHERE run_id = %s", (run_id,))
    await client.runs.join(thread_id, run_id)
    with pytest.raises(NotFoundError):
        await client.runs.get(thread_id, run_id)
    assert (await client.threads.get_state(thread_id))["checkpoint"] == before["checkpoint"]
    assert (await client.threads.get(thread_id))["status"] == "idle"


@pytest.mark.parametrize("mode", ["delta", "full"])
async def test_taking_back_an_answer_leaves_the_question_open(
    tmp_path: Path, database_url: str, mode: str
) -> None:
    slow = {**DEMO_MODEL, "token_delay_s": 0.2}
    async with serving(tmp_path, database_url, {"checkpoint_mode": mode, "models": [slow]}) as served:
        client = served.client()
        thread_id = (await client.threads.create())["thread_id"]
        question = {
            "messages": [{"role": "user", "content": '/tool ask_clarification {"question": "Which?"}'}]
        }
        asked = await client.runs.wait(thread_id, "agent", input=question)
        assert asked["__interrupt__"]
        run = await client.runs.create(
            thread_id, "agent", command={"resume": "the left one"}, stream_mode=["values", "messages-tuple"]
        )
        async for part in client.runs.join_stream(thread_id, run["run_id"]):
            if part.event == "messages" and part.data[0]["type"] == "AIMessageChunk":
                break
        await client.runs.cancel(thread_id, run["run_id"], wait=True, action="rollback")
        assert (await client.threads.get(thread_id))["status"] == "interrupted"
        assert "left" not in str((await client.threads.get_state(thread_id))["values"])
        answered = await client.runs.wait(thread_id, "agent", command={"resume": "the right one"})
        assert "the right one" in str(answered["messages"])
        assert "the left one" not in str(answered["messages"])


async def newest_record(http: httpx.AsyncClient, thread_id: str) -> dict[str, Any]:
    (record,) = (await http.get(f"/threads/{thread_id}/compactions")).json()["data"]
    return dict(record)


async def test_taking_back_a_run_that_compacted_brings_back_what_was_compacted(
    tmp_path: Path, database_url: str
) -> None:
    summarization = {"trigger": {"type": "messages", "value": 7}, "keep": {"type": "messages", "value": 2}}
    long = " ".join(f"fact {n} is noted." for n in range(600))
    async with serving(tmp_path, database_url, {"summarization": summarization}) as served:
        client = served.client()
        thread_id = (await client.threads.create())["thread_id"]
        for number in range(3):
            text = {"messages": [{"role": "user", "content": f"{number}: {long}"}]}
            await client.runs.wait(thread_id, "agent", input=text)
        before = (await client.threads.get_state(thread_id))["values"]
        run_id = await streaming(client, thread_id, VERY_SLOW)
        async with served.http() as http:
            # The answer begins while the state with the compaction is still being written.
            async with asyncio.timeout(10):
                while (await newest_record(http, thread_id))["status"] != "committed":
                    await asyncio.sleep(0.02)
            await client.runs.cancel(thread_id, run_id, wait=True, action="rollback")
            (record,) = (await http.get(f"/threads/{thread_id}/compactions")).json()["data"]
            assert record["status"] == "rolled_back"
            assert (await client.threads.get_state(thread_id))["values"] == before
            compacted = (await http.post(f"/threads/{thread_id}/compact", json={})).json()
            assert compacted["compacted"], compacted


async def test_who_waits_for_a_run_that_is_taken_back_is_told_at_once(gateway: Gateway) -> None:
    client = gateway.client()
    thread_id = (await client.threads.create())["thread_id"]
    run_id = await streaming(client, thread_id, VERY_SLOW)
    # Not by the next heartbeat, five seconds later.
    async with asyncio.timeout(3):
        await client.runs.cancel(thread_id, run_id, wait=True, action="rollback")
