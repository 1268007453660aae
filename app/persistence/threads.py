"""Threads: rows, filters, the reservation of a thread by its one writer, and deletion in two steps."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Literal

from psycopg import AsyncConnection
from psycopg.types.json import Jsonb
from psycopg_pool import AsyncConnectionPool

from app.persistence.events import CHANNEL, stream_of
from app.serialization import dumps_jsonb

ThreadStatus = Literal["idle", "busy", "interrupted", "error"]
StoredStatus = Literal["idle", "interrupted", "error"]
SortBy = Literal["thread_id", "status", "created_at", "updated_at", "state_updated_at"]
SortOrder = Literal["asc", "desc"]
Refusal = Literal["missing", "active_run", "reserved"]


@dataclass(frozen=True, slots=True)
class Thread:
    """A conversation.

    ``status`` is ``busy`` exactly while a run of it is pending or running, so no crash can leave a thread
    busy. ``values`` are the small channel values that search filters on; never messages.
    """

    thread_id: str
    owner: str
    metadata: Mapping[str, Any]
    config: Mapping[str, Any]
    status: ThreadStatus
    values: Mapping[str, Any] | None
    interrupts: Mapping[str, Any]
    error: Mapping[str, Any] | None
    created_at: datetime
    updated_at: datetime
    state_updated_at: datetime | None

    @property
    def graph_name(self) -> str | None:
        """The graph that the last run used, as stamped into the metadata."""
        name = self.metadata.get("graph_id")
        return name if isinstance(name, str) else None


LEFT_OUT = "__left_out__"


@dataclass(frozen=True, slots=True)
class StateSummary:
    """What a thread's row keeps of its newest state: small values, open interrupts by task id, and the
    status. ``values[LEFT_OUT]`` names those that were too large to keep, where there are any; what is neither there
    nor named has no value. ``checkpoint_id``: where the state stands.
    """

    values: Mapping[str, Any]
    interrupts: Mapping[str, Any]
    status: StoredStatus
    checkpoint_id: str | None = None


@dataclass(frozen=True, slots=True)
class ThreadFilter:
    """Which threads: all given conditions hold. ``metadata`` and ``values`` are contained in the thread's."""

    owner: str
    metadata: Mapping[str, Any] = field(default_factory=dict)
    values: Mapping[str, Any] = field(default_factory=dict)
    ids: Sequence[str] | None = None
    status: ThreadStatus | None = None


class ThreadStore:
    """The ``threads`` table. Threads of others, and threads being deleted, do not exist for a caller."""

    def __init__(self, pool: AsyncConnectionPool[Any]) -> None:
        self._pool = pool

    async def create(self, thread_id: str, owner: str, metadata: Mapping[str, Any]) -> Thread | None:
        """Insert a thread. None when the id is taken, by whomever."""
        return await self._one(_CREATE, (thread_id, owner, _jsonb(metadata)))

    async def get(self, thread_id: str, owner: str) -> Thread | None:
        return await self._one(f"SELECT {_COLUMNS} FROM threads t WHERE {_MINE}", (thread_id, owner))

    async def find(self, thread_id: str) -> Thread | None:
        """Whoever owns it: for work in the background, which asks for nobody."""
        return await self._one(
            f"SELECT {_COLUMNS} FROM threads t WHERE t.thread_id = %s AND t.deleted_at IS NULL", (thread_id,)
        )

    async def patch(self, thread_id: str, owner: str, metadata: Mapping[str, Any]) -> Thread | None:
        """Merge ``metadata`` into the thread's, key by key. None when there is no such thread."""
        return await self._one(_PATCH, (_jsonb(metadata), thread_id, owner))

    async def search(
        self, wanted: ThreadFilter, *, limit: int, offset: int, sort_by: SortBy, sort_order: SortOrder
    ) -> list[Thread]:
        conditions, parameters = _conditions(wanted)
        # Both words come from a Literal; the id makes pages stable.
        order = f"{_SORTED_BY[sort_by]} {_ORDERS[sort_order]} NULLS LAST, t.thread_id"
        async with self._pool.connection() as conn:
            cursor = await conn.execute(
                f"SELECT {_COLUMNS} FROM threads t WHERE {conditions} ORDER BY {order} "
                "LIMIT %(limit)s OFFSET %(offset)s",
                {**parameters, "limit": limit, "offset": offset},
            )
            return [Thread(**row) for row in await cursor.fetchall()]

    async def count(self, wanted: ThreadFilter) -> int:
        conditions, parameters = _conditions(wanted)
        async with self._pool.connection() as conn:
            cursor = await conn.execute(
                f"SELECT count(*) AS total FROM threads t WHERE {conditions}", parameters
            )
            row = await cursor.fetchone()
            return int(row["total"]) if row else 0

    async def save_state_summary(
        self, thread_id: str, summary: StateSummary, *, error: Mapping[str, Any] | None = None
    ) -> None:
        """Keep what the newest state says, which somebody wrote or took a run back to, and tell those who follow the
        thread of it. ``error``, of the run that just ended, makes the status ``error``.

        No owner: the caller holds the thread or executes its run.
        """
        async with self._pool.connection() as conn:
            await conn.execute(
                _SAVE_STATE,
                {
                    "thread_id": thread_id,
                    "values": _jsonb(summary.values),
                    "interrupts": _jsonb(summary.interrupts),
                    "status": "error" if error else summary.status,
                    "error": _jsonb(error) if error else None,
                    "checkpoint": summary.checkpoint_id,
                    "channel": CHANNEL,
                    "subject": stream_of(thread_id),
                },
            )

    async def reserve(self, thread_id: str, owner: str, holder: str, ttl_s: float) -> Refusal | None:
        """Make ``holder`` (a uuid) the one writer of the thread for ``ttl_s`` seconds. Returns why not, None
        if it is.

        The row is locked before runs are looked at, and a run is inserted under the same lock: of a
        reservation and a run that start together, one sees the other.
        """
        async with self._pool.connection() as conn, conn.transaction():
            row = await _locked(conn, thread_id, owner)
            if row is None or row["deleted_at"]:
                return "missing"
            if row["reserved"]:
                return "reserved"
            if await _has_active_run(conn, thread_id):
                return "active_run"
            await conn.execute(_RESERVE, (holder, ttl_s, thread_id))
            return None

    async def extend(self, thread_id: str, holder: str, ttl_s: float) -> bool:
        """Hold the reservation for another ``ttl_s`` seconds from now. False when ``holder`` has lost it."""
        async with self._pool.connection() as conn:
            return (await conn.execute(_EXTEND, (ttl_s, thread_id, holder))).rowcount > 0

    async def release(self, thread_id: str, holder: str) -> None:
        async with self._pool.connection() as conn:
            await conn.execute(_RELEASE, (thread_id, holder))

    async def begin_deletion(self, thread_id: str, owner: str, *, idle_only: bool = False) -> Refusal | None:
        """Mark the thread as being deleted: from now on nothing can start on it. Returns why not; active runs are a
        reason with ``idle_only``.

        A thread whose deletion has begun already may be deleted again, so that a crash in between is not the
        end.
        """
        async with self._pool.connection() as conn, conn.transaction():
            row = await _locked(conn, thread_id, owner)
            if row is None:
                return "missing"
            if row["reserved"]:
                return "reserved"
            if idle_only and await _has_active_run(conn, thread_id):
                return "active_run"
            await conn.execute(
                "UPDATE threads SET deleted_at = coalesce(deleted_at, now()) WHERE thread_id = %s",
                (thread_id,),
            )
            return None

    async def finish_deletion(self, thread_id: str) -> None:
        """Remove a thread whose deletion has begun, with its runs, events, archive and records."""
        async with self._pool.connection() as conn:
            await conn.execute(_REMOVE, (thread_id, CHANNEL, stream_of(thread_id)))

    async def begun_deletions(self) -> list[str]:
        """Ids of threads, of any owner, whose deletion has begun and not finished; not those that are being copied
        into."""
        async with self._pool.connection() as conn:
            cursor = await conn.execute(
                """SELECT thread_id FROM threads
                   WHERE deleted_at IS NOT NULL AND coalesce(reserved_until <= now(), true)"""
            )
            return [row["thread_id"] for row in await cursor.fetchall()]

    async def _one(self, statement: str, parameters: Sequence[Any]) -> Thread | None:
        async with self._pool.connection() as conn:
            row = await (await conn.execute(statement, parameters)).fetchone()
            return Thread(**row) if row else None


async def _locked(conn: AsyncConnection[Any], thread_id: str, owner: str) -> Mapping[str, Any] | None:
    cursor = await conn.execute(
        """SELECT deleted_at, coalesce(reserved_until > now(), false) AS reserved
           FROM threads WHERE thread_id = %s AND owner = %s FOR UPDATE""",
        (thread_id, owner),
    )
    return await cursor.fetchone()


async def _has_active_run(conn: AsyncConnection[Any], thread_id: str) -> bool:
    # A statement of its own: its snapshot is taken after the lock was granted.
    cursor = await conn.execute(
        "SELECT 1 FROM runs WHERE thread_id = %s AND status IN ('pending', 'running') LIMIT 1", (thread_id,)
    )
    return await cursor.fetchone() is not None


def _conditions(wanted: ThreadFilter) -> tuple[str, dict[str, Any]]:
    parts = ["t.owner = %(owner)s", "t.deleted_at IS NULL"]
    parameters: dict[str, Any] = {"owner": wanted.owner}
    for name, clause, value in (
        ("metadata", "t.metadata @> %(metadata)s", _jsonb(wanted.metadata) if wanted.metadata else None),
        ("values", 't."values" @> %(values)s', _jsonb(wanted.values) if wanted.values else None),
        ("ids", "t.thread_id = ANY(%(ids)s)", None if wanted.ids is None else list(wanted.ids)),
        ("status", f"({_STATUS}) = %(status)s", wanted.status),
    ):
        if value is not None:
            parts.append(clause)
            parameters[name] = value
    return " AND ".join(parts), parameters


def _jsonb(value: Any) -> Jsonb:
    return Jsonb(value, dumps=dumps_jsonb)


_STATUS = """CASE WHEN EXISTS (
    SELECT 1 FROM runs r WHERE r.thread_id = t.thread_id AND r.status IN ('pending', 'running')
) THEN 'busy' ELSE t.status END"""
_COLUMNS = f"""t.thread_id, t.owner, t.metadata, t.config, {_STATUS} AS status, t."values", t.interrupts,
    t.error, t.created_at, t.updated_at, t.state_updated_at"""
_MINE = "t.thread_id = %s AND t.owner = %s AND t.deleted_at IS NULL"

_CREATE = f"""
WITH t AS (
    INSERT INTO threads (thread_id, owner, metadata) VALUES (%s, %s, %s) ON CONFLICT DO NOTHING RETURNING *
) SELECT {_COLUMNS} FROM t
"""
_PATCH = f"""
UPDATE threads t SET metadata = t.metadata || %s, updated_at = now() WHERE {_MINE} RETURNING {_COLUMNS}
"""
_SAVE_STATE = """
WITH kept AS (
    UPDATE threads SET "values" = %(values)s, interrupts = %(interrupts)s, status = %(status)s, error = %(error)s,
        state_updated_at = now(), updated_at = now()
    WHERE thread_id = %(thread_id)s RETURNING thread_id
), told AS (
    INSERT INTO thread_state_updates (thread_id, checkpoint_id)
    SELECT thread_id, %(checkpoint)s FROM kept WHERE %(checkpoint)s::text IS NOT NULL RETURNING thread_id
) SELECT pg_notify(%(channel)s, %(subject)s) FROM told
"""
# Who follows the thread learns that it is gone.
_REMOVE = """
WITH gone AS (DELETE FROM threads WHERE thread_id = %s AND deleted_at IS NOT NULL RETURNING thread_id)
SELECT pg_notify(%s, %s) FROM gone
"""
_RESERVE = """
UPDATE threads SET reserved_by = %s, reserved_until = now() + make_interval(secs => %s) WHERE thread_id = %s
"""
_EXTEND = """
UPDATE threads SET reserved_until = now() + make_interval(secs => %s)
WHERE thread_id = %s AND reserved_by = %s AND reserved_until > now()
"""
_RELEASE = """
UPDATE threads SET reserved_by = NULL, reserved_until = NULL WHERE thread_id = %s AND reserved_by = %s
"""
_ORDERS: Mapping[SortOrder, str] = {"asc": "ASC", "desc": "DESC"}
_SORTED_BY: Mapping[SortBy, str] = {
    "thread_id": "t.thread_id",
    "status": "status",
    "created_at": "t.created_at",
    "updated_at": "t.updated_at",
    "state_updated_at": "t.state_updated_at",
}
