"""A worker that stands still is taken for dead. When it comes back it must do no harm."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

import pytest
from langchain_core.messages import HumanMessage
from langgraph.checkpoint.base import empty_checkpoint

from app.persistence.admission import Admissions, NewRun
from app.persistence.cancellation import cancelled
from app.persistence.checkpoints import ATTEMPT_KEY, ThreadSaver
from app.persistence.events import Event, EventStore
from app.persistence.runs import RunLost, RunStore
from app.persistence.threads import ThreadStore
from tests.support.gateway import Gateway, serving

HELLO = {"messages": [{"role": "user", "content": "hello"}]}
SLOW = {"messages": [{"role": "user", "content": "/slow 60"}]}
THREAD = "7e1b9a52-1111-4222-8333-444455556666"
RUN = "7e1b9a52-2222-4222-8333-444455556666"


@pytest.fixture
async def two(tmp_path: Path, database_url: str) -> AsyncIterator[list[Gateway]]:
    async with AsyncExitStack() as stack:
        served = []
        for name in ("first", "second"):
            (tmp_path / name).mkdir()
            served.append(await stack.enter_async_context(serving(tmp_path / name, database_url)))
        yield served


async def first_token(client: Any, thread_id: str, run_id: str) -> None:
    async for part in client.runs.join_stream(thread_id, run_id):
        if part.event == "messages":
            return


async def claimed(database: Any, attempts: int) -> RunStore:
    """A run that was taken up so many times."""
    await ThreadStore(database.pool).create(THREAD, "", {})
    runs = RunStore(database.pool)
    async with Admissions(database.pool).look(THREAD, "", create=False) as admission:
        assert admission
        await admission.insert(NewRun(RUN, "agent", {}, {}, "enqueue", {}))
    for number in range(attempts):
        assert await runs.claim(RUN, f"worker {number}")
    return runs


@pytest.mark.timeout(60)
async def test_a_run_taken_over_from_a_living_worker_ends_once_and_its_thread_goes_on(
    two: list[Gateway], database: Any
) -> None:
    client = two[0].client()
    thread_id = (await client.threads.create())["thread_id"]
    run = await client.runs.create(thread_id, "agent", input=SLOW, stream_mode=["messages-tuple", "values"])
    waiting = await client.runs.create(thread_id, "agent", input=HELLO)
    await first_token(client, thread_id, run["run_id"])
    async with database.pool.connection() as conn:
        # As if it had stood still: no heartbeat for long. Another one takes the run up, and this one goes on, too.
        while (await _attempt(conn, run["run_id"])) < 2:
            await conn.execute("UPDATE procrastinate_workers SET last_heartbeat = now() - interval '1 hour'")
            await asyncio.sleep(0.05)
    values = await client.runs.join(thread_id, waiting["run_id"])
    assert [message["type"] for message in values["messages"]] == ["human", "ai", "human", "ai"]
    parts = [part async for part in client.runs.join_stream(thread_id, run["run_id"])]
    attempts = [part.data["attempt"] for part in parts if part.event == "metadata"]
    # On a busy machine the second one may be taken for dead as well.
    assert attempts in ([1, 2], [1, 2, 3])
    assert [int(part.id) for part in parts] == list(range(1, len(parts) + 1))
    assert [part.event for part in parts].count("end") == 1
    async with database.pool.connection() as conn:
        left = await (await conn.execute("SELECT * FROM procrastinate_jobs")).fetchall()
    assert [row for row in left if row["status"] != "doing"] == []


async def _attempt(conn: Any, run_id: str) -> int:
    row = await (await conn.execute("SELECT attempt FROM runs WHERE run_id = %s", (run_id,))).fetchone()
    return int(row["attempt"])


async def test_a_lost_worker_writes_no_checkpoint(database: Any) -> None:
    await claimed(database, attempts=2)

    async def unused(*_: Any) -> None:
        raise AssertionError

    async def write(attempt: int) -> None:
        place = {"thread_id": THREAD, "checkpoint_ns": "", "run_id": RUN, ATTEMPT_KEY: attempt}
        config: Any = {"configurable": place}
        saver = ThreadSaver(database.pool, unused)
        checkpoint = empty_checkpoint()
        checkpoint["channel_values"] = {"messages": [HumanMessage(f"of attempt {attempt}")]}
        stored = await saver.aput(config, checkpoint, {}, {"messages": "1"})
        config["configurable"]["checkpoint_id"] = stored["configurable"]["checkpoint_id"]
        await saver.aput_writes(config, [("messages", "x")], "task")

    with pytest.raises(RunLost):
        await write(1)
    assert await _rows(database) == (0, 0, 0)
    await write(2)
    assert await _rows(database) == (1, 1, 1)


async def _rows(database: Any) -> tuple[int, ...]:
    async with database.pool.connection() as conn:
        tables = ("checkpoints", "checkpoint_blobs", "checkpoint_writes")
        rows = [await (await conn.execute(f"SELECT count(*) AS n FROM {name}")).fetchone() for name in tables]
        return tuple(row["n"] for row in rows)


async def test_a_lost_worker_writes_no_event_and_a_batch_may_be_written_again(database: Any) -> None:
    await claimed(database, attempts=2)
    events = EventStore(database.pool)
    batch = [Event(1, "values", "{}"), Event(2, "values", "{}")]
    assert not await events.append(RUN, 1, batch)
    assert await events.append(RUN, 2, batch)
    assert await events.append(RUN, 2, batch)
    assert await events.read(RUN, 0) == batch


async def test_a_reader_gets_large_events_in_small_pages(database: Any) -> None:
    await claimed(database, attempts=1)
    events = EventStore(database.pool)
    large = [Event(number, "values", f'"{"x" * 700_000}"') for number in range(1, 6)]
    assert await events.append(RUN, 1, large)
    first = await events.read(RUN, 0)
    assert [event.seq for event in first] == [1, 2]
    assert [event.seq for event in await events.read(RUN, 2)] == [3, 4]


async def test_a_task_that_overhears_a_cancellation_is_asked_again() -> None:
    heard = 0

    async def hard_of_hearing() -> None:
        nonlocal heard
        while heard < 3:
            try:
                await asyncio.Event().wait()
            except asyncio.CancelledError:
                heard += 1

    task = asyncio.create_task(hard_of_hearing())
    await asyncio.sleep(0)
    await asyncio.wait_for(cancelled(task), timeout=10)
    assert (task.done(), heard) == (True, 3)
