"""The queue of what is to be read: one job for several turns, tried a bounded number of times, never lost."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

import pytest

from app.persistence.database import Database
from app.persistence.memory_queue import MemoryJob, MemoryQueue
from app.persistence.queue import WorkerSettings

FAST = WorkerSettings(heartbeat=0.2, stalled=1.0, grace=0.5)
JOB = MemoryJob("t", "demo")


class Reader:
    """Remembers what it was given; ``fails`` is how often it fails first; with ``hold`` it does not come back."""

    def __init__(self, fails: int = 0, hold: bool = False) -> None:
        self.jobs: list[MemoryJob] = []
        self.changed = asyncio.Condition()
        self.fails = fails
        self.hold = hold

    async def __call__(self, job: MemoryJob) -> None:
        async with self.changed:
            self.jobs.append(job)
            self.changed.notify_all()
        if self.hold:
            await asyncio.Event().wait()
        if len(self.jobs) <= self.fails:
            raise ConnectionError("no answer")

    async def until(self, condition: Callable[[list[MemoryJob]], bool]) -> None:
        async with asyncio.timeout(20), self.changed:
            await self.changed.wait_for(lambda: condition(self.jobs))


@asynccontextmanager
async def opened(database: Database, delay_s: float = 0.0, **options: Any) -> AsyncIterator[MemoryQueue]:
    pool: Any = database.pool
    queue = MemoryQueue(pool, FAST, delay_s, **options)
    await queue.open()
    yield queue
    await queue.stop()


async def waiting(database: Database) -> list[dict[str, Any]]:
    async with database.pool.connection() as conn:
        cursor = await conn.execute(
            "SELECT status::text, attempts, queueing_lock FROM procrastinate_jobs ORDER BY id"
        )
        return await cursor.fetchall()


async def emptied(database: Database) -> None:
    async with asyncio.timeout(20):
        while await waiting(database):
            await asyncio.sleep(0.05)


async def test_several_turns_within_the_delay_are_one_job(database: Database) -> None:
    reader = Reader()
    async with opened(database, delay_s=1.0) as queue:
        queue.start(reader)
        for _ in range(5):
            await queue.defer(JOB)
        await queue.defer(MemoryJob("other", "demo"))
        assert len(await waiting(database)) == 2
        await emptied(database)
        assert sorted(job.thread_id for job in reader.jobs) == ["other", "t"]


async def test_a_turn_that_is_finished_while_one_is_read_gets_a_job_of_its_own(database: Database) -> None:
    reader = Reader(hold=True)
    async with opened(database) as queue:
        queue.start(reader)
        await queue.defer(JOB)
        await reader.until(lambda jobs: len(jobs) == 1)
        await queue.defer(JOB)
        await queue.defer(JOB)
        assert [row["status"] for row in await waiting(database)] == ["doing", "todo"]


async def test_each_compaction_has_its_job(database: Database) -> None:
    reader = Reader()
    async with opened(database) as queue:
        queue.start(reader)
        for number in ("c1", "c2", "c1"):
            await queue.defer(MemoryJob("t", "demo", compaction_id=number, question_id="q"))
        await emptied(database)
        assert [job.compaction_id for job in reader.jobs] == ["c1", "c2"]
        assert reader.jobs[0] == MemoryJob("t", "demo", "c1", "q")


async def test_a_failure_is_tried_again_and_then_given_up(
    database: Database, caplog: pytest.LogCaptureFixture
) -> None:
    reader = Reader(fails=99)
    async with opened(database, pauses_s=(0.1, 0.2)) as queue:
        queue.start(reader)
        await queue.defer(JOB)
        await emptied(database)
    assert len(reader.jobs) == 3
    assert [record.getMessage() for record in caplog.records if "cannot be read" in record.getMessage()] == [
        f"thread t cannot be read for facts (try {number} of 3): ConnectionError: no answer"
        for number in (1, 2, 3)
    ]


async def test_a_failure_does_not_keep_the_next_turn_from_being_queued(database: Database) -> None:
    reader = Reader(fails=1)
    async with opened(database, pauses_s=(0.5,)) as queue:
        queue.start(reader)
        await queue.defer(JOB)
        await reader.until(lambda jobs: len(jobs) == 1)
        await queue.defer(JOB)
        await emptied(database)
        assert len(reader.jobs) == 3


async def test_what_was_queued_survives_the_process_and_needs_no_announcement(database: Database) -> None:
    async with opened(database) as queue:
        await queue.defer(JOB)
    reader = Reader()
    async with opened(database) as queue:
        queue.start(reader)
        await emptied(database)
        assert reader.jobs == [JOB]


async def test_a_worker_that_stops_puts_back_what_it_was_reading(database: Database) -> None:
    held = Reader(hold=True)
    async with opened(database) as queue:
        queue.start(held)
        await queue.defer(JOB)
        await held.until(lambda jobs: len(jobs) == 1)
        await queue.defer(JOB)
    assert [row["status"] for row in await waiting(database)] == ["todo", "todo"]
    reader = Reader()
    async with opened(database) as queue:
        queue.start(reader)
        await emptied(database)
        assert reader.jobs == [JOB, JOB]


async def test_the_job_of_a_dead_worker_is_returned_and_one_that_ends_its_workers_is_given_up(
    database: Database,
) -> None:
    async with opened(database, pauses_s=(0.1, 0.1)) as queue:
        await queue.defer(JOB)
        for attempt in (1, 2):
            await die(database)
            await queue.return_stalled()
            (row,) = await waiting(database)
            assert (row["status"], row["attempts"]) == ("todo", attempt)
        await die(database)
        await queue.return_stalled()
        assert await waiting(database) == []


async def die(database: Database) -> None:
    """As it is after a worker was killed: its job is being done, and nobody is there who does it."""
    async with database.pool.connection() as conn:
        await conn.execute("UPDATE procrastinate_jobs SET status = 'doing', worker_id = NULL")


async def test_runs_are_not_the_business_of_this_queue(database: Database) -> None:
    async with database.pool.connection() as conn:
        await conn.execute(
            """INSERT INTO procrastinate_jobs (queue_name, task_name, lock, status)
               VALUES ('runs', 'threadkeep.execute_run', 't', 'doing')"""
        )
    reader = Reader()
    async with opened(database) as queue:
        queue.start(reader)
        await queue.defer(JOB)
        await reader.until(lambda jobs: len(jobs) == 1)
        await queue.return_stalled()
        assert (await waiting(database))[0]["status"] == "doing"
