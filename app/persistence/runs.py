"""Runs: rows, the lock under which a run is admitted to a thread, and the claim by a worker."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Literal

from psycopg.errors import UniqueViolation
from psycopg.types.json import Jsonb
from psycopg_pool import AsyncConnectionPool

from app.persistence.events import CHANNEL, TERMINAL_EVENT, end_of
from app.persistence.run_statements import (
    CHOSEN,
    CLAIM,
    COLUMNS,
    FINISH_PENDING,
    FINISH_RUNNING,
    ORPHANS,
    QUEUE_STATE,
)
from app.persistence.threads import StateSummary
from app.serialization import dumps, dumps_jsonb

RunStatus = Literal["pending", "running", "success", "error", "timeout", "interrupted"]
CancelAction = Literal["interrupt", "rollback"]
ACTIVE: tuple[RunStatus, ...] = ("pending", "running")


class RunLost(Exception):
    """Another worker executes the run now, or it has ended or is gone: this one must stop at once."""


@dataclass(frozen=True, slots=True)
class Run:
    """One execution of a graph on a thread. ``kwargs`` is the request it was started with; ``attempt`` counts the
    workers that took it up and fences off those that lost it; ``handed_back`` counts those that drained."""

    run_id: str
    thread_id: str
    assistant_id: str
    status: RunStatus
    kwargs: Mapping[str, Any]
    metadata: Mapping[str, Any]
    multitask_strategy: str
    attempt: int
    handed_back: int
    job_id: int | None
    cancel_action: CancelAction | None
    error: Mapping[str, Any] | None
    created_at: datetime
    updated_at: datetime

    @property
    def lost(self) -> int:
        """Workers that took the run up and were never heard of again, when another one takes it up now."""
        return self.attempt - self.handed_back - 1

    @property
    def active(self) -> bool:
        return self.status in ACTIVE


@dataclass(frozen=True, slots=True)
class QueueState:
    """Runs of the whole installation that could be executed now or are; ``oldest_s`` is the age of the oldest one that
    waits, in seconds, 0 when none does."""

    waiting: int
    running: int
    oldest_s: float


class RunStore:
    """The ``runs`` table."""

    def __init__(self, pool: AsyncConnectionPool[Any]) -> None:
        self._pool = pool

    async def get(self, thread_id: str, run_id: str) -> Run | None:
        return await self._one(
            f"SELECT {COLUMNS} FROM runs WHERE run_id = %s AND thread_id = %s", (run_id, thread_id)
        )

    async def find(self, run_id: str) -> Run | None:
        return await self._one(f"SELECT {COLUMNS} FROM runs WHERE run_id = %s", (run_id,))

    async def page(self, thread_id: str, limit: int, offset: int, status: str | None) -> list[Run]:
        """Newest first."""
        async with self._pool.connection() as conn:
            cursor = await conn.execute(
                f"""SELECT {COLUMNS} FROM runs WHERE thread_id = %s AND (%s::text IS NULL OR status = %s)
                    ORDER BY position DESC LIMIT %s OFFSET %s""",
                (thread_id, status, status, limit, offset),
            )
            return [run_of(row) for row in await cursor.fetchall()]

    async def active(self, thread_id: str) -> list[Run]:
        """Pending and running runs, oldest first."""
        async with self._pool.connection() as conn:
            cursor = await conn.execute(
                f"""SELECT {COLUMNS} FROM runs WHERE thread_id = %s AND status IN ('pending', 'running')
                    ORDER BY position""",
                (thread_id,),
            )
            return [run_of(row) for row in await cursor.fetchall()]

    async def is_active(self, run_id: str) -> bool:
        """Whether the run is pending or running. Cheap: its input may be large."""
        async with self._pool.connection() as conn:
            cursor = await conn.execute(
                "SELECT 1 FROM runs WHERE run_id = %s AND status IN ('pending', 'running')", (run_id,)
            )
            return await cursor.fetchone() is not None

    async def claim(self, run_id: str, worker: str) -> Run | None:
        """Make this worker the run's executor: status running, next attempt. None while the thread is reserved or
        another run of it is running, and when the run is not active (any more)."""
        try:
            return await self._one(CLAIM, (worker, run_id, CHANNEL))
        except UniqueViolation:
            # The job of a run was lost while it was running, so that the queue gave out the next one of the thread.
            return None

    async def hand_back(self, run_id: str, attempt: int, *, counts: bool = False) -> bool:
        """Return a run that was not cancelled to the queue. ``counts``: the attempt counts as one that was lost."""
        return await self._changed(
            """UPDATE runs SET status = 'pending', handed_back = handed_back + %s, worker = NULL, updated_at = now()
               WHERE run_id = %s AND attempt = %s AND status = 'running' AND cancel_action IS NULL""",
            (0 if counts else 1, run_id, attempt),
        )

    async def request_cancel(self, run_id: str, action: CancelAction) -> Run | None:
        """Ask the executor of a running run to stop. None when it is not running."""
        return await self._one(
            f"""UPDATE runs SET cancel_action = %s, updated_at = now()
                WHERE run_id = %s AND status = 'running' RETURNING {COLUMNS}""",
            (action, run_id),
        )

    async def cancel_pending(self, run_id: str) -> bool:
        """End a run that no worker has taken up yet, with its ``end`` event. False when it is not pending."""
        return await self._finish(FINISH_PENDING, run_id, 0, "interrupted")

    async def finish(
        self,
        run_id: str,
        attempt: int,
        status: RunStatus,
        error: Mapping[str, Any] | None = None,
        usage: Mapping[str, Any] | None = None,
        values: str | None = None,
        summary: StateSummary | None = None,
    ) -> bool:
        """Persist the terminal status, keep what the thread's newest state says (``summary``, if it could be read) and
        append the ``end`` event, in one statement, so that whoever sees ``end`` sees all of it. ``values`` (JSON) is
        what the run's webhook, if it has one, is told of the thread: it is owed from here on. False when the run is not
        executed by ``attempt`` any more, or is to be taken back."""
        return await self._finish(FINISH_RUNNING, run_id, attempt, status, error, usage, values, summary)

    async def delete(self, thread_id: str, run_id: str) -> bool:
        """Delete a finished run and its events. False when there is none."""
        return await self._changed(
            "DELETE FROM runs WHERE thread_id = %s AND run_id = %s AND status NOT IN ('pending', 'running')",
            (thread_id, run_id),
        )

    async def chosen(
        self, owner: str, thread_id: str | None, run_ids: Sequence[str] | None, statuses: Sequence[RunStatus]
    ) -> list[Run]:
        """Runs of the owner's threads, oldest first: of one thread if given, with these ids, or with these
        statuses where no ids are given."""
        async with self._pool.connection() as conn:
            cursor = await conn.execute(
                CHOSEN,
                {
                    "owner": owner,
                    "thread_id": thread_id,
                    "run_ids": None if run_ids is None else list(run_ids),
                    "statuses": list(statuses),
                },
            )
            return [run_of(row) for row in await cursor.fetchall()]

    async def queue_state(self) -> QueueState:
        async with self._pool.connection() as conn:
            row = await (await conn.execute(QUEUE_STATE)).fetchone()
            assert row is not None
            return QueueState(row["waiting"], row["running"], float(row["oldest_s"]))

    async def orphans(self, older_than_s: float) -> list[Run]:
        """Active runs whose job is gone from the queue or has ended: nobody would ever finish them."""
        async with self._pool.connection() as conn:
            cursor = await conn.execute(ORPHANS, (older_than_s,))
            return [run_of(row) for row in await cursor.fetchall()]

    async def _finish(
        self,
        statement: str,
        run_id: str,
        attempt: int,
        status: RunStatus,
        error: Mapping[str, Any] | None = None,
        usage: Mapping[str, Any] | None = None,
        values: str | None = None,
        summary: StateSummary | None = None,
    ) -> bool:
        thread_status = None if summary is None else "error" if error else summary.status
        return await self._changed(
            statement,
            {
                "run_id": run_id,
                "attempt": attempt,
                "status": status,
                "error": jsonb(error) if error else None,
                "error_text": dumps(error).decode() if error else None,
                "usage": jsonb(usage) if usage else None,
                "values": values,
                "kept_values": jsonb(summary.values) if summary else None,
                "interrupts": jsonb(summary.interrupts) if summary else None,
                "thread_status": thread_status,
                "end": TERMINAL_EVENT,
                "channel": CHANNEL,
                "subject": end_of(run_id),
            },
        )

    async def _one(self, statement: str, parameters: Sequence[Any]) -> Run | None:
        async with self._pool.connection() as conn:
            row = await (await conn.execute(statement, parameters)).fetchone()
            return run_of(row) if row else None

    async def _changed(self, statement: str, parameters: Any) -> bool:
        async with self._pool.connection() as conn:
            return (await conn.execute(statement, parameters)).rowcount > 0


def run_of(row: Mapping[str, Any]) -> Run:
    """A row with ``COLUMNS``."""
    return Run(**{**row, "run_id": str(row["run_id"])})


def jsonb(value: Any) -> Jsonb:
    return Jsonb(value, dumps=dumps_jsonb)
