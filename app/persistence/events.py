"""Stream events of runs: written in batches, announced by NOTIFY, read from any replica by sequence number."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

import psycopg
from psycopg_pool import AsyncConnectionPool

from app.errors import DatabaseError
from app.persistence.cancellation import cancelled
from app.persistence.database import connect

CHANNEL = "threadkeep_run_events"
PAGE = 500
# A reader that is slow holds one page.
PAGE_BYTES = 1_000_000
RECONNECT_SECONDS = 1.0
TERMINAL_EVENT = "end"
STREAM_SUBJECT = "thread:"
# Names of events that only thread streams (v2) show begin with it; the stream of a run passes over them.
HIDDEN = "~"
# What the hub announces when a webhook is owed something.
WEBHOOKS = "webhooks"

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Event:
    """One stream event of a run. ``seq`` is unique and ordered within the run, from 1; ``data`` is one-line JSON;
    ``at`` is when it was written, None before it is."""

    seq: int
    event: str
    data: str
    at: datetime | None = field(default=None, compare=False)

    @property
    def hidden(self) -> bool:
        return self.event.startswith(HIDDEN)


def end_of(run_id: str) -> str:
    """What the hub announces when a run has ended, for those who wait for nothing else."""
    return f"{run_id}:end"


def stream_of(thread_id: str) -> str:
    """What the hub announces when a run of a thread begins, and whatever else its stream has to be told."""
    return f"{STREAM_SUBJECT}{thread_id}"


class EventStore:
    """The ``run_events`` table."""

    def __init__(self, pool: AsyncConnectionPool[Any]) -> None:
        self._pool = pool

    async def append(self, run_id: str, attempt: int, events: Sequence[Event]) -> bool:
        """Write ``events`` and wake the readers, in one statement.

        Returns False, and writes nothing, when the run is no longer executed by ``attempt`` (another worker took
        it over, or it has ended): the caller has lost the run and must stop. Events that are there already are left
        alone, so that a batch may be written again.
        """
        async with self._pool.connection() as conn:
            cursor = await conn.execute(
                _APPEND,
                {
                    "run_id": run_id,
                    "attempt": attempt,
                    "seqs": [e.seq for e in events],
                    "names": [e.event for e in events],
                    "datas": [e.data for e in events],
                    "channel": CHANNEL,
                },
            )
            return await cursor.fetchone() is not None

    async def read(self, run_id: str, after: int, limit: int = PAGE) -> list[Event]:
        """Events with ``seq > after`` in order, at most ``limit``, and not many more than ``PAGE_BYTES`` of data."""
        async with self._pool.connection() as conn:
            cursor = await conn.execute(
                _READ, {"run_id": run_id, "after": after, "limit": limit, "max_bytes": PAGE_BYTES}
            )
            return [Event(r["seq"], r["event"], r["data"], r["created_at"]) for r in await cursor.fetchall()]

    async def last_seq(self, run_id: str) -> int:
        """The highest sequence number of the run, 0 when it has no event."""
        async with self._pool.connection() as conn:
            cursor = await conn.execute(
                "SELECT coalesce(max(seq), 0) AS seq FROM run_events WHERE run_id = %s", (run_id,)
            )
            row = await cursor.fetchone()
            return int(row["seq"]) if row else 0


class EventHub:
    """One LISTEN connection of the process; wakes everybody who waits for news of a run.

    A lost connection wakes all waiters (they read the table and see for themselves) and is opened again.
    """

    def __init__(self, url: str) -> None:
        self._url = url
        self._waiters: dict[str, set[asyncio.Event]] = {}
        self._task: asyncio.Task[None] | None = None

    async def start(self) -> None:
        ready = asyncio.Event()
        self._task = asyncio.create_task(self._listen(ready), name="run event listener")
        await ready.wait()

    async def stop(self) -> None:
        if self._task:
            await cancelled(self._task)
        self.wake_all()

    def wake_all(self) -> None:
        for waiters in self._waiters.values():
            for event in waiters:
                event.set()

    @asynccontextmanager
    async def watch(self, subject: str) -> AsyncIterator[asyncio.Event]:
        """An event that is set whenever there is news of ``subject``: a run id, ``end_of`` one, ``stream_of`` a
        thread. The watcher clears it before it reads."""
        event = asyncio.Event()
        self._waiters.setdefault(subject, set()).add(event)
        try:
            yield event
        finally:
            waiters = self._waiters[subject]
            waiters.discard(event)
            if not waiters:
                del self._waiters[subject]

    async def _listen(self, ready: asyncio.Event) -> None:
        while True:
            try:
                await self._listen_once(ready)
            except (psycopg.Error, DatabaseError) as error:
                log.warning("lost the connection that listens for run events: %s", type(error).__name__)
            ready.set()
            self.wake_all()
            await asyncio.sleep(RECONNECT_SECONDS)

    async def _listen_once(self, ready: asyncio.Event) -> None:
        # Outside the pool: the connection is held for the life of the process.
        async with await connect(self._url) as connection:
            await connection.execute(f"LISTEN {CHANNEL}")
            ready.set()
            self.wake_all()
            async for notification in connection.notifies():
                for event in self._waiters.get(notification.payload, ()):
                    event.set()


_APPEND = """
WITH owner AS (
    SELECT run_id FROM runs WHERE run_id = %(run_id)s AND attempt = %(attempt)s AND status = 'running' FOR SHARE
), written AS (
    INSERT INTO run_events (run_id, seq, event, data)
    SELECT owner.run_id, e.seq, e.event, e.data
    FROM owner, unnest(%(seqs)s::bigint[], %(names)s::text[], %(datas)s::text[]) AS e(seq, event, data)
    ON CONFLICT DO NOTHING
)
SELECT pg_notify(%(channel)s, owner.run_id::text) FROM owner
"""

# ``octet_length`` of a large value does not read it.
_READ = """
SELECT seq, event, data, created_at FROM (
    SELECT seq, event, data, created_at, sum(octet_length(data)) OVER (ORDER BY seq) - octet_length(data) AS before
    FROM run_events WHERE run_id = %(run_id)s AND seq > %(after)s ORDER BY seq LIMIT %(limit)s
) AS page WHERE before < %(max_bytes)s ORDER BY seq
"""
