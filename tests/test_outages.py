"""The database goes away for a moment and comes back; nobody has to do anything about it."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from tests.support.gateway import Gateway, serving
from tests.support.unreliable import Relay, relayed

HELLO = {"messages": [{"role": "user", "content": "hello"}]}
SLOW = {"messages": [{"role": "user", "content": "/slow 60"}]}


@pytest.fixture
async def relay(database_url: str) -> AsyncIterator[Relay]:
    async with relayed(database_url) as opened:
        yield opened


@pytest.fixture
async def served(tmp_path: Path, relay: Relay) -> AsyncIterator[Gateway]:
    async with serving(tmp_path, relay.url, {"database": {"pool_max_size": 5}}) as gateway:
        yield gateway


async def away(relay: Relay, seconds: float) -> None:
    await relay.cut()
    await asyncio.sleep(seconds)
    await relay.restore()


async def read(client: Any, thread_id: str, run_id: str, began: asyncio.Event) -> list[Any]:
    parts = []
    async for part in client.runs.join_stream(thread_id, run_id):
        parts.append(part)
        if part.event == "messages":
            began.set()
    return parts


@pytest.mark.timeout(60)
async def test_a_run_and_its_stream_go_on_when_the_database_was_away(served: Gateway, relay: Relay) -> None:
    client = served.client()
    thread_id = (await client.threads.create())["thread_id"]
    run = await client.runs.create(thread_id, "agent", input=SLOW, stream_mode=["messages-tuple", "values"])
    began = asyncio.Event()
    reading = asyncio.create_task(read(client, thread_id, run["run_id"], began))
    await began.wait()
    await away(relay, 2)
    parts = await reading
    assert [part.data["attempt"] for part in parts if part.event == "metadata"] == [1]
    assert parts[-1].event == "end"
    assert [int(part.id) for part in parts] == list(range(1, len(parts) + 1))
    assert (await client.runs.get(thread_id, run["run_id"]))["status"] == "success"
    state = await client.threads.get_state(thread_id)
    reply = state["values"]["messages"][-1]
    assert "".join(part.data[0]["content"] for part in parts if part.event == "messages") == reply["content"]


@pytest.mark.timeout(60)
async def test_runs_end_and_new_ones_start_right_after_the_database_is_back(
    served: Gateway, relay: Relay
) -> None:
    client = served.client()
    threads = [(await client.threads.create())["thread_id"] for _ in range(4)]
    short = {"messages": [{"role": "user", "content": "/slow 8"}]}
    runs = [await client.runs.create(thread_id, "agent", input=short) for thread_id in threads]
    # In the midst of starting, of executing and of ending.
    for _ in range(3):
        await away(relay, 0.3)
        await asyncio.sleep(0.3)
    await away(relay, 3)
    for thread_id, run in zip(threads, runs, strict=True):
        await client.runs.join(thread_id, run["run_id"])
        assert (await client.runs.get(thread_id, run["run_id"]))["status"] == "success"
        state = await client.threads.get_state(thread_id)
        assert [message["type"] for message in state["values"]["messages"]] == ["human", "ai"]
    back = time.monotonic()
    for thread_id in threads:
        await client.runs.wait(thread_id, "agent", input=HELLO)
    assert time.monotonic() - back < 4


@pytest.mark.timeout(60)
async def test_a_request_is_answered_within_seconds_of_the_return_of_the_database(
    served: Gateway, relay: Relay
) -> None:
    async with served.http() as http:
        await relay.cut()
        asked = [asyncio.create_task(http.get("/threads/00000000-0000-4000-8000-000000000000"))]
        # The pool has tried several times by then, and would wait for longer than it has waited yet.
        await asyncio.sleep(4)
        await relay.restore()
        back = time.monotonic()
        assert (await asked[0]).status_code == 404
        assert time.monotonic() - back < 2.5


@pytest.mark.timeout(60)
async def test_a_run_whose_job_was_fetched_while_the_database_went_away_is_executed(
    tmp_path: Path, database_url: str, database: Any
) -> None:
    async with serving(tmp_path, database_url) as served:
        client = served.client()
        thread_id = (await client.threads.create())["thread_id"]
        run = await client.runs.create(thread_id, "agent", input=HELLO, after_seconds=3600)
        async with database.pool.connection() as conn:
            # What the answer to a fetch that got lost leaves: a job of a living worker that nobody executes.
            await conn.execute(
                "UPDATE procrastinate_jobs SET status = 'doing', worker_id = (SELECT max(id)"
                " FROM procrastinate_workers)"
            )
        await client.runs.join(thread_id, run["run_id"])
        assert (await client.runs.get(thread_id, run["run_id"]))["status"] == "success"
