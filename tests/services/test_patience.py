"""Work that is not cut short, and a database that is waited for."""

from __future__ import annotations

import asyncio
from typing import Any

import psycopg
import pytest

from app.persistence.admission import Admissions, NewRun
from app.persistence.events import EventStore
from app.persistence.outage import is_outage, through_outage
from app.persistence.runs import RunStore
from app.persistence.threads import ThreadStore
from app.services.runs.event_writer import EventWriter
from app.services.runs.patience import to_its_end, unbroken

THREAD = "5d6f2a52-1111-4222-8333-444455556666"
RUN = "5d6f2a52-2222-4222-8333-444455556666"


@pytest.fixture
async def events(database: Any) -> EventStore:
    """Of a run that is executed for the first time."""
    await ThreadStore(database.pool).create(THREAD, "", {})
    runs = RunStore(database.pool)
    async with Admissions(database.pool).look(THREAD, "", create=False) as admission:
        assert admission
        await admission.insert(NewRun(RUN, "agent", {}, {}, "enqueue", {}))
    assert await runs.claim(RUN, "worker")
    return EventStore(database.pool)


@pytest.mark.parametrize("cancellations", [0, 3])
async def test_leaving_a_writer_in_the_midst_of_a_write_loses_no_event(
    events: EventStore, database: Any, cancellations: int
) -> None:
    async def write() -> None:
        async with EventWriter(events, RUN, 1, 1) as writer:
            await writer.put("first", 1)
            # The first write is under way by now, and held up.
            await asyncio.sleep(0.1)
            await writer.put("second", 2)

    async with database.pool.connection() as conn, conn.transaction():
        await conn.execute("SELECT 1 FROM runs WHERE run_id = %s FOR UPDATE", (RUN,))
        writing = asyncio.create_task(write())
        await asyncio.sleep(0.3)
        for _ in range(cancellations):
            writing.cancel()
            await asyncio.sleep(0.05)
        assert not writing.done()
    async with asyncio.timeout(10):
        await asyncio.wait({writing})
    assert [event.event for event in await events.read(RUN, 0)] == ["first", "second"]
    assert "event writer" not in {task.get_name() for task in asyncio.all_tasks()}


async def test_waiting_for_the_database_ends_when_it_is_cancelled_even_if_the_driver_says_something_else() -> (
    None
):
    waiting = asyncio.Event()

    async def query() -> None:
        waiting.set()
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            raise psycopg.OperationalError("the connection is closed") from None

    task = asyncio.create_task(through_outage(query))
    await waiting.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await asyncio.wait_for(task, 5)


async def test_only_so_long_is_the_database_waited_for_and_nothing_else_is() -> None:
    calls = 0

    async def gone() -> None:
        nonlocal calls
        calls += 1
        raise psycopg.OperationalError("gone")

    async def wrong() -> None:
        raise psycopg.errors.UniqueViolation("twice")

    with pytest.raises(psycopg.OperationalError):
        await through_outage(gone, patience_s=0.7)
    assert calls == 3
    with pytest.raises(psycopg.errors.UniqueViolation):
        await through_outage(wrong)
    wrapped = RuntimeError()
    wrapped.__cause__ = psycopg.OperationalError()
    assert is_outage(wrapped)
    assert not is_outage(ValueError())


async def test_work_goes_to_its_end_whoever_cancels_the_one_who_waits() -> None:
    done = []

    async def work(name: str) -> str:
        await asyncio.sleep(0.2)
        done.append(name)
        return name

    result = asyncio.create_task(to_its_end(work("awaited")))
    left = asyncio.create_task(unbroken(work("left")))
    await asyncio.sleep(0.05)
    result.cancel()
    left.cancel()
    assert await result == ("awaited", True)
    with pytest.raises(asyncio.CancelledError):
        await left
    while len(done) < 2:
        await asyncio.sleep(0.01)
    assert set(done) == {"awaited", "left"}
