"""Runs without a thread, and cancelling many runs at once, with the official client."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from langgraph_sdk.errors import ConflictError, NotFoundError, UnprocessableEntityError

from app.api.stateless_runs import MAX_BATCH
from tests.support.gateway import Gateway, serving

HELLO = {"messages": [{"role": "user", "content": "hello there"}]}
SLOW = {"messages": [{"role": "user", "content": "/slow 400"}]}
WAIT_S = 15


@pytest.fixture
async def hasty(tmp_path: Path, database_url: str) -> AsyncIterator[Gateway]:
    """A gateway that soon removes what stateless runs leave."""
    runs = {"stalled_after_s": 0.6, "stateless_grace_s": 0.2}
    async with serving(tmp_path, database_url, {"runs": runs}) as gateway:
        yield gateway


async def gone(client: Any, thread_id: str) -> None:
    """Wait until the thread does not exist."""
    async with asyncio.timeout(WAIT_S):
        while True:
            try:
                await client.threads.get(thread_id)
            except NotFoundError:
                return
            await asyncio.sleep(0.05)


async def test_a_run_without_a_thread_answers_with_its_values_and_leaves_nothing(gateway: Gateway) -> None:
    client = gateway.client()
    values: Any = await client.runs.wait(None, "agent", input=HELLO)
    assert [message["type"] for message in values["messages"]] == ["human", "ai"]
    async with asyncio.timeout(WAIT_S):
        while await client.threads.count():
            await asyncio.sleep(0.05)


async def test_a_stream_without_a_thread_says_where_it_runs_and_the_thread_goes_after_its_end(
    gateway: Gateway,
) -> None:
    client = gateway.client()
    made: list[Any] = []
    parts = [
        part
        async for part in client.runs.stream(
            None, "agent", input=HELLO, stream_mode="updates", on_run_created=made.append
        )
    ]
    assert [parts[0].event, parts[-1].event] == ["metadata", "end"]
    assert made[0]["run_id"] == parts[0].data["run_id"]
    await gone(client, made[0]["thread_id"])


async def test_a_background_run_without_a_thread_can_be_joined_and_is_removed_later(hasty: Gateway) -> None:
    client = hasty.client()
    run = await client.runs.create(None, "agent", input=HELLO)
    await gone(client, run["thread_id"])


async def test_the_thread_of_a_run_whose_client_went_away_is_removed(hasty: Gateway) -> None:
    client = hasty.client()
    made: list[Any] = []
    async for part in client.runs.stream(
        None, "agent", input=HELLO, stream_mode="messages-tuple", on_run_created=made.append
    ):
        if part.event == "messages":
            break
    await gone(client, made[0]["thread_id"])


async def test_on_completion_keep_keeps_the_thread(hasty: Gateway) -> None:
    client = hasty.client()
    kept = await client.runs.create(None, "agent", input=HELLO, on_completion="keep")
    removed = await client.runs.create(None, "agent", input=HELLO)
    await gone(client, removed["thread_id"])
    await client.runs.join(kept["thread_id"], kept["run_id"])
    assert (await client.threads.get(kept["thread_id"]))["status"] == "idle"


async def test_a_batch_starts_each_run_on_a_thread_of_its_own(gateway: Gateway) -> None:
    client = gateway.client()
    payload: Any = {"assistant_id": "agent", "input": HELLO, "thread_id": None, "on_completion": "keep"}
    runs = await client.runs.create_batch([payload, payload])
    assert len({run["thread_id"] for run in runs}) == 2
    for run in runs:
        values: Any = await client.runs.join(run["thread_id"], run["run_id"])
        assert len(values["messages"]) == 2


async def test_a_batch_with_one_wrong_body_starts_nothing(gateway: Gateway) -> None:
    client = gateway.client()
    good: Any = {"assistant_id": "agent", "input": HELLO}
    for wrong, named in (
        ({"assistant_id": "nobody", "input": HELLO}, "body[1]: assistant_id"),
        ({"assistant_id": "agent", "input": {"nothing": 1}}, "body[1]: input.nothing"),
        ({"assistant_id": "agent", "inputs": 1}, "body[1].inputs"),
    ):
        with pytest.raises(UnprocessableEntityError) as caught:
            await client.runs.create_batch([good, wrong])  # type: ignore[list-item]
        assert named in caught.value.response.json()["detail"]
    assert await client.threads.count() == 0


async def test_a_stateless_body_that_makes_no_sense_names_its_field(gateway: Gateway) -> None:
    body = {"assistant_id": "agent", "input": HELLO}
    async with gateway.http() as http:
        for route, sent, named in (
            (
                "/runs/wait",
                {**body, "config": {"configurable": {"thread_id": "x"}}},
                "configurable.thread_id",
            ),
            ("/runs", {**body, "thread_id": "x"}, "body.thread_id"),
            ("/runs/stream", {**body, "on_completion": "burn"}, "body.on_completion"),
            ("/runs/batch", [], "body"),
            ("/runs/batch", [body] * (MAX_BATCH + 1), "body"),
            ("/runs/batch", {}, "body"),
        ):
            response = await http.post(route, json=sent)
            assert (response.status_code, named in response.json()["detail"]) == (422, True), response.text


async def test_runs_are_cancelled_by_id_and_by_status(gateway: Gateway) -> None:
    client = gateway.client()
    threads = [(await client.threads.create())["thread_id"] for _ in range(3)]
    runs = [
        await client.runs.create(thread, "agent", input=SLOW, stream_mode="messages-tuple")
        for thread in threads
    ]
    waiting = await client.runs.create(threads[0], "agent", input=HELLO)
    await client.runs.cancel_many(thread_id=threads[0], run_ids=[waiting["run_id"]])
    assert (await client.runs.get(threads[0], waiting["run_id"]))["status"] == "interrupted"
    await client.runs.cancel_many(status="all")
    for thread, run in zip(threads, runs, strict=True):
        await client.runs.join(thread, run["run_id"])
        assert (await client.runs.get(thread, run["run_id"]))["status"] == "interrupted"


async def test_cancelling_many_refuses_what_is_not_there_has_ended_or_says_nothing(gateway: Gateway) -> None:
    client = gateway.client()
    thread_id = (await client.threads.create())["thread_id"]
    run = await client.runs.create(thread_id, "agent", input=HELLO)
    await client.runs.join(thread_id, run["run_id"])
    with pytest.raises(ConflictError):
        await client.runs.cancel_many(thread_id=thread_id, run_ids=[run["run_id"]])
    with pytest.raises(NotFoundError):
        await client.runs.cancel_many(run_ids=["3f1c2a52-1111-4222-8333-444455556666"])
    with pytest.raises(UnprocessableEntityError):
        await client.runs.cancel_many(run_ids=["x"])
    with pytest.raises(UnprocessableEntityError):
        await client.runs.cancel_many()
    await client.runs.cancel_many(status="pending")


async def test_rolling_back_many_removes_the_runs(gateway: Gateway) -> None:
    client = gateway.client()
    thread_id = (await client.threads.create())["thread_id"]
    first = await client.runs.create(thread_id, "agent", input=SLOW, stream_mode="messages-tuple")
    second = await client.runs.create(thread_id, "agent", input=HELLO)
    async for part in client.runs.join_stream(thread_id, first["run_id"]):
        if part.event == "messages":
            break
    await client.runs.cancel_many(thread_id=thread_id, status="all", action="rollback")
    async with asyncio.timeout(WAIT_S):
        while await client.runs.list(thread_id):
            await asyncio.sleep(0.05)
    assert second["run_id"] != first["run_id"]
    assert (await client.threads.get_state(thread_id))["values"].get("messages", []) == []


async def test_input_and_command_together_are_refused_without_a_thread_too(gateway: Gateway) -> None:
    async with gateway.http() as http:
        body = {"assistant_id": "agent", "input": HELLO, "command": {"resume": 1}}
        assert (await http.post("/runs/wait", json=body)).status_code == 400
