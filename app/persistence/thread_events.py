"""Runs as the streams of their threads (v2) need them: in their order, and how they ended."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from psycopg_pool import AsyncConnectionPool


@dataclass(frozen=True, slots=True)
class PlacedRun:
    """A run that was begun, or ended before it was. ``resume`` is what it answers interrupts with, ``ended_s`` for how
    many seconds it has been over, None while it is not; ``recorded`` whether thread streams show all of it; ``waiting``
    whether its thread waits for an answer now, ``followed`` whether another run waits for its turn."""

    run_id: str
    position: int
    graph_name: str
    resume: Any
    recorded: bool
    ended_s: float | None
    waiting: bool
    followed: bool


@dataclass(frozen=True, slots=True)
class RunEnd:
    """The status a run ended with, its error if any, and the interrupts its thread waits for by task."""

    status: str
    error: Mapping[str, Any] | None
    interrupts: Mapping[str, Any]


class ThreadEventStore:
    """Positions are those of the thread's one order (``app/persistence/thread_stream``)."""

    def __init__(self, pool: AsyncConnectionPool[Any]) -> None:
        self._pool = pool

    async def newest(self, thread_id: str, run_id: str | None = None) -> PlacedRun | None:
        """The newest run, or the one with this id."""
        return await self._run(_NEWEST, (thread_id, run_id, run_id))

    async def next(self, thread_id: str, position: int) -> PlacedRun | None:
        """The first run at or behind ``position``."""
        return await self._run(_NEXT, (thread_id, position))

    async def exists(self, thread_id: str) -> bool:
        async with self._pool.connection() as conn:
            cursor = await conn.execute(
                "SELECT 1 FROM threads WHERE thread_id = %s AND deleted_at IS NULL", (thread_id,)
            )
            return await cursor.fetchone() is not None

    async def end_of(self, run_id: str) -> RunEnd | None:
        """None when the run is gone."""
        async with self._pool.connection() as conn:
            row = await (await conn.execute(_END, (run_id,))).fetchone()
            return RunEnd(row["status"], row["error"], row["interrupts"]) if row else None

    async def last(self, thread_id: str) -> tuple[int, int] | None:
        """Position and last event of the newest run. None when no run was begun yet."""
        async with self._pool.connection() as conn:
            row = await (await conn.execute(_LAST, (thread_id,))).fetchone()
            return (row["position"], row["seq"]) if row else None

    async def _run(self, statement: str, parameters: tuple[Any, ...]) -> PlacedRun | None:
        async with self._pool.connection() as conn:
            row = await (await conn.execute(statement, parameters)).fetchone()
            return PlacedRun(**{**row, "run_id": str(row["run_id"])}) if row else None


# The input of a run may be large: only what is needed is taken out of it.
_PLACED = """
SELECT run_id, stream_position AS position, t.interrupts <> '{}' AS waiting,
    EXISTS (SELECT 1 FROM runs p WHERE p.thread_id = r.thread_id AND p.status = 'pending') AS followed,
    coalesce(kwargs->>'graph_name', '') AS graph_name,
    kwargs->'command'->'resume' AS resume, coalesce((kwargs->>'recorded')::boolean, false) AS recorded,
    CASE WHEN r.status IN ('pending', 'running') THEN NULL
         ELSE extract(epoch FROM now() - finished_at)::float8 END AS ended_s
FROM runs r JOIN threads t USING (thread_id) WHERE thread_id = %s AND stream_position IS NOT NULL
"""
_NEWEST = f"{_PLACED} AND (%s::text IS NULL OR run_id::text = %s) ORDER BY stream_position DESC LIMIT 1"
_NEXT = f"{_PLACED} AND stream_position >= %s ORDER BY stream_position LIMIT 1"
_END = """
SELECT r.status, r.error, t.interrupts FROM runs r JOIN threads t USING (thread_id) WHERE r.run_id = %s
"""
_LAST = """
SELECT r.stream_position AS position,
    coalesce((SELECT max(e.seq) FROM run_events e WHERE e.run_id = r.run_id), 0) AS seq
FROM runs r WHERE r.thread_id = %s AND r.stream_position IS NOT NULL ORDER BY r.stream_position DESC LIMIT 1
"""
