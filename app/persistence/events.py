"""Stream events of runs: written in batches, announced by NOTIFY, read from any replica by sequence number."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
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
# No character takes more bytes.
_WIDEST_CHARACTER = 4
RECONNECT_SECONDS = 1.0
TERMINAL_EVENT = "end"
STREAM_SUBJECT = "thread:"
_END = ":end"
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


def may_go_on(page: Sequence[Event]) -> bool:
    """Whether there may be events behind a page that was read just now."""
    return len(page) >= PAGE or sum(len(event.data) for event in page) * _WIDEST_CHARACTER >= PAGE_BYTES


def end_of(run_id: str) -> str:
    """What the hub announces when a run has ended, for those who wait for nothing else."""
    return f"{run_id}{_END}"


def stream_of(thread_id: str) -> str:
    """What the hub announces when a run of a thread begins, and whatever else its stream has to be told."""
    return f"{STREAM_SUBJECT}{thread_id}"


class EventStore:
    """The ``run_events`` table. ``hub``, if given, hands what is written here to readers in this process."""

    def __init__(self, pool: AsyncConnectionPool[Any], hub: EventHub | None = None) -> None:
        self._pool = pool
        self._hub = hub

    async def append(self, run_id: str, attempt: int, events: Sequence[Event]) -> bool:
        """Write ``events`` and wake the readers, in one statement.

        Returns False, and writes nothing, when the run is no longer executed by ``attempt`` (another worker took
        it over, or it has ended): the caller has lost the run and must stop. Events that are there already are left
        alone, so that a batch may be written again.
        """
        if self._hub is None:
            return await self._append(run_id, attempt, events) is not None
        async with self._hub.handing_over(run_id, events) as written:
            written.at = await self._append(run_id, attempt, events)
        return written.at is not None

    async def _append(self, run_id: str, attempt: int, events: Sequence[Event]) -> datetime | None:
        """When they were written, None when they were not."""
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
                    "through": str(events[-1].seq),
                },
            )
            row = await cursor.fetchone()
            return row["at"] if row else None

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


@dataclass(slots=True)
class Written:
    """When a batch of events was written; None: it was not, or nobody knows."""

    at: datetime | None = None


class News(asyncio.Event):
    """Set whenever there is news of a subject. Whoever waits clears it before they look.

    Events that this process wrote itself need not be read from the table: they are kept here until ``take``, no more
    than a page of them.
    """

    def __init__(self) -> None:
        super().__init__()
        self._written: list[Event] = []
        self._size = 0
        self._heard = 0

    def hand_over(self, events: Sequence[Event]) -> None:
        """None: look for yourself."""
        size = sum(len(event.data) for event in events)
        if len(self._written) + len(events) > PAGE or self._size + size > PAGE_BYTES:
            # A slow reader: it finds them in the table.
            self._written, self._size = [], 0
        else:
            self._written += events
            self._size += size
        self.set()

    def expect(self, through: int) -> None:
        """Events up to this number are being written here, and handed over then."""
        self._heard = through

    def announce(self, through: int) -> None:
        """There are events up to this number (0: unknown)."""
        if not 0 < through <= self._heard:
            self.set()

    def take(self, after: int) -> list[Event]:
        """What was handed over since, if it begins right behind ``after``."""
        written = [event for event in self._written if event.seq > after]
        self._written, self._size = [], 0
        return written if written and written[0].seq == after + 1 else []


class EventHub:
    """One LISTEN connection of the process; wakes everybody who waits for news of a run.

    A lost connection wakes all waiters (they read the table and see for themselves) and is opened again.
    """

    def __init__(self, url: str) -> None:
        self._url = url
        self._waiters: dict[str, set[News]] = {}
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
    async def handing_over(self, run_id: str, events: Sequence[Event]) -> AsyncIterator[Written]:
        """Give those who follow the run here what is written in the block; they need not ask the database for it. The
        notification may come before the answer to whoever writes, and is expected from the beginning."""
        written = Written()
        for news in self._waiters.get(run_id, ()):
            news.expect(events[-1].seq)
        try:
            yield written
        finally:
            stamped = [replace(event, at=written.at) for event in events] if written.at else []
            for news in self._waiters.get(run_id, ()):
                news.hand_over(stamped)

    @asynccontextmanager
    async def watch(self, subject: str) -> AsyncIterator[News]:
        """What is set whenever there is news of ``subject``: a run id, ``end_of`` one, ``stream_of`` a thread. The
        watcher clears it before it reads."""
        event = News()
        self._waiters.setdefault(subject, set()).add(event)
        try:
            yield event
        finally:
            waiters = self._waiters[subject]
            waiters.discard(event)
            if not waiters:
                del self._waiters[subject]

    def watched(self) -> dict[str, int]:
        """How many follow the events of a run, wait for a run's end, follow a thread."""
        kinds = {"run": 0, "wait": 0, "thread": 0}
        for subject, waiters in self._waiters.items():
            if subject.startswith(STREAM_SUBJECT):
                kinds["thread"] += len(waiters)
            elif subject.endswith(_END):
                kinds["wait"] += len(waiters)
            elif subject != WEBHOOKS:
                kinds["run"] += len(waiters)
        return kinds

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
                subject, _, through = notification.payload.partition(" ")
                for news in self._waiters.get(subject, ()):
                    news.announce(int(through or 0))


# Arrays in the binary form: in the other one every event is escaped by a regular expression.
_APPEND = """
WITH owner AS (
    SELECT run_id FROM runs WHERE run_id = %(run_id)s AND attempt = %(attempt)s AND status = 'running' FOR SHARE
), written AS (
    INSERT INTO run_events (run_id, seq, event, data)
    SELECT owner.run_id, e.seq, e.event, e.data
    FROM owner, unnest(%(seqs)b::bigint[], %(names)b::text[], %(datas)b::text[]) AS e(seq, event, data)
    ON CONFLICT DO NOTHING
)
SELECT now() AS at, pg_notify(%(channel)s, owner.run_id || ' ' || %(through)s) FROM owner
"""

# ``octet_length`` of a large value does not read it.
_READ = """
SELECT seq, event, data, created_at FROM (
    SELECT seq, event, data, created_at, sum(octet_length(data)) OVER (ORDER BY seq) - octet_length(data) AS before
    FROM run_events WHERE run_id = %(run_id)s AND seq > %(after)s ORDER BY seq LIMIT %(limit)s
) AS page WHERE before < %(max_bytes)s ORDER BY seq
"""
