"""Admitting a run to a thread: what stands in its way, and its insertion together with its job."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any

from psycopg import AsyncConnection
from psycopg_pool import AsyncConnectionPool

from app.persistence.queue import NewJob
from app.persistence.run_statements import COLUMNS, INSERT, LOCK_THREAD
from app.persistence.runs import Run, jsonb, run_of


@dataclass(frozen=True, slots=True)
class NewRun:
    """A run to be admitted. The thread takes on ``thread_metadata``; without a ``job`` nobody is to execute it."""

    run_id: str
    assistant_id: str
    kwargs: Mapping[str, Any]
    metadata: Mapping[str, Any]
    multitask_strategy: str
    thread_metadata: Mapping[str, Any]
    webhook: str | None = None
    job: NewJob | None = None


class Admission:
    """A thread's row, locked: what stands in the way of a new run, and the insertion of one. One transaction."""

    def __init__(self, conn: AsyncConnection[Any], owner: str, thread: Mapping[str, Any]) -> None:
        self.connection = conn
        self._owner = owner
        self._thread = thread

    @property
    def reserved(self) -> bool:
        """Somebody (a compaction, a state write) holds the thread now."""
        return bool(self._thread["reserved"])

    async def active_runs(self) -> list[Run]:
        cursor = await self.connection.execute(
            f"SELECT {COLUMNS} FROM runs WHERE thread_id = %s AND status IN ('pending', 'running') "
            "ORDER BY position",
            (self._thread["thread_id"],),
        )
        return [run_of(row) for row in await cursor.fetchall()]

    async def insert(self, new: NewRun) -> Run:
        run = await _insert(self.connection, self._thread["thread_id"], self._owner, new)
        assert run is not None
        return run


class Admissions:
    """Runs that begin to be. Those of a thread get their places one after the other, in the order of its lock."""

    def __init__(self, pool: AsyncConnectionPool[Any]) -> None:
        self._pool = pool

    @asynccontextmanager
    async def look(
        self, thread_id: str, owner: str, *, create: bool, temporary: bool = False
    ) -> AsyncIterator[Admission | None]:
        """Lock the thread for one transaction. None when it is being deleted, or is missing and not to be made.
        ``temporary``: a thread that is made now is removed when its runs are over."""
        async with self._pool.connection() as conn, conn.transaction():
            if create:
                await conn.execute(
                    "INSERT INTO threads (thread_id, owner, temporary) VALUES (%s, %s, %s) ON CONFLICT DO NOTHING",
                    (thread_id, owner, temporary),
                )
            cursor = await conn.execute(LOCK_THREAD, (thread_id, owner))
            thread = await cursor.fetchone()
            yield Admission(conn, owner, thread) if thread else None

    async def admit(self, thread_id: str, owner: str, new: NewRun) -> Run | None:
        """Admit a run that nothing on its thread can speak against, in one statement. None when there is no thread."""
        async with self._pool.connection() as conn:
            return await _insert(conn, thread_id, owner, new)


async def _insert(conn: AsyncConnection[Any], thread_id: str, owner: str, new: NewRun) -> Run | None:
    job = new.job
    cursor = await conn.execute(
        INSERT,
        {
            "run_id": new.run_id,
            "thread_id": thread_id,
            "owner": owner,
            "assistant_id": new.assistant_id,
            "kwargs": jsonb(new.kwargs),
            "metadata": jsonb(new.metadata),
            "strategy": new.multitask_strategy,
            "thread_metadata": jsonb(new.thread_metadata),
            "webhook": new.webhook,
            "queue": job and job.queue,
            "task": job and job.task,
            "priority": job and job.priority,
            "delay_s": job and job.delay_s,
        },
    )
    row = await cursor.fetchone()
    return run_of(row) if row else None
