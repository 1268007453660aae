"""Which checkpoints led to a checkpoint."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from psycopg_pool import AsyncConnectionPool


@dataclass(frozen=True, slots=True)
class Ancestor:
    """A checkpoint of the thread's own graph. ``source`` is what made it: ``input`` is one that holds a run's input and
    has not taken it in yet. ``run_id`` is None for state writes, and in a copy it is a run of the original."""

    checkpoint_id: str
    source: str | None
    run_id: str | None


class LineageStore:
    """Reads the links between checkpoints, no state."""

    def __init__(self, pool: AsyncConnectionPool[Any]) -> None:
        self._pool = pool

    async def of(self, thread_id: str, checkpoint_id: str) -> list[Ancestor]:
        """The checkpoint and its ancestors, the newest first, as far back as they were not pruned."""
        async with self._pool.connection() as conn:
            cursor = await conn.execute(_LINE, {"thread": thread_id, "head": checkpoint_id})
            return [
                Ancestor(row["checkpoint_id"], row["source"], row["run_id"])
                for row in await cursor.fetchall()
            ]


_LINE = """
WITH RECURSIVE line AS (
    SELECT checkpoint_id, parent_checkpoint_id, metadata, 0 AS age FROM checkpoints
    WHERE thread_id = %(thread)s AND checkpoint_ns = '' AND checkpoint_id = %(head)s
    UNION ALL
    SELECT c.checkpoint_id, c.parent_checkpoint_id, c.metadata, line.age + 1 FROM line
    JOIN checkpoints c ON c.thread_id = %(thread)s AND c.checkpoint_ns = ''
        AND c.checkpoint_id = line.parent_checkpoint_id
)
SELECT checkpoint_id, metadata->>'source' AS source, metadata->>'run_id' AS run_id FROM line ORDER BY age
"""
