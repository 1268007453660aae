"""The one order of everything that a thread's stream shows: its runs as they began, and writes to its state."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

from psycopg_pool import AsyncConnectionPool


@dataclass(frozen=True, slots=True)
class Begun:
    """A run that was begun, or ended before it was."""

    position: int
    run_id: str


@dataclass(frozen=True, slots=True)
class Written:
    """A write to the thread's state, by the checkpoint that it made."""

    position: int
    checkpoint_id: str


@dataclass(frozen=True, slots=True)
class NextStep:
    """What is asked for: the next step behind position ``after``, or that one itself where it is a run that may be
    ``unfinished``; of ``runs``, of ``writes``, or of both."""

    thread_id: str
    after: int
    unfinished: bool
    runs: bool
    writes: bool


class ThreadStreamStore:
    """Positions are unique and ordered within a thread. What has a lower one ends before what has a higher one begins,
    since a thread has one writer at a time."""

    def __init__(self, pool: AsyncConnectionPool[Any]) -> None:
        self._pool = pool

    async def now(self, thread_id: str) -> tuple[int, bool] | None:
        """The newest position (0 when there is none), and whether it is that of a run which is not over. None when the
        thread does not exist."""
        async with self._pool.connection() as conn:
            row = await (await conn.execute(_NOW, {"thread": thread_id})).fetchone()
            return (row["position"], row["active"]) if row else None

    async def next(self, wanted: NextStep) -> Begun | Written | None:
        """None while there is no such step."""
        async with self._pool.connection() as conn:
            row = await (await conn.execute(_NEXT, asdict(wanted))).fetchone()
        if row is None:
            return None
        if row["run_id"]:
            return Begun(row["position"], str(row["run_id"]))
        return Written(row["position"], row["checkpoint_id"])


_NOW = """
SELECT coalesce(greatest(begun.position, written.position), 0) AS position,
    coalesce(begun.position > coalesce(written.position, 0) AND begun.active, false) AS active
FROM threads t
LEFT JOIN LATERAL (
    SELECT stream_position AS position, status IN ('pending', 'running') AS active FROM runs r
    WHERE r.thread_id = t.thread_id AND stream_position IS NOT NULL ORDER BY stream_position DESC LIMIT 1
) AS begun ON true
LEFT JOIN LATERAL (
    SELECT max(position) AS position FROM thread_state_updates w WHERE w.thread_id = t.thread_id
) AS written ON true
WHERE t.thread_id = %(thread)s AND t.deleted_at IS NULL
"""
_NEXT = """
SELECT * FROM (
    (SELECT stream_position AS position, run_id, NULL AS checkpoint_id FROM runs
     WHERE %(runs)s AND thread_id = %(thread_id)s
       AND stream_position >= %(after)s + CASE WHEN %(unfinished)s THEN 0 ELSE 1 END ORDER BY 1 LIMIT 1)
    UNION ALL
    (SELECT position, NULL, checkpoint_id FROM thread_state_updates
     WHERE %(writes)s AND thread_id = %(thread_id)s AND position > %(after)s ORDER BY 1 LIMIT 1)
) AS following ORDER BY position LIMIT 1
"""
