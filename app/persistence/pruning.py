"""Removing checkpoints that nothing needs any more, and the events of runs that are long over."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from psycopg import AsyncConnection
from psycopg_pool import AsyncConnectionPool

from app.persistence.events import TERMINAL_EVENT
from app.persistence.snapshots import Snapshot

_RUNS_AT_ONCE = 200


@dataclass(frozen=True, slots=True)
class Lineage:
    """The checkpoints of a thread's own conversation: ``parents`` by id; ``head`` is the newest, None without any.
    ``undoable`` are those on both sides of the newest compaction that can be undone or redone."""

    head: str | None
    parents: Mapping[str, str | None]
    undoable: Sequence[str]

    @property
    def kept(self) -> list[str]:
        """What must stay, in no particular order."""
        wanted = (self.head, *self.undoable)
        return sorted({known for known in wanted if known is not None and known in self.parents})

    def kept_parent(self, checkpoint_id: str) -> str | None:
        """The nearest ancestor that stays: branches stay what they were."""
        kept = set(self.kept)
        parent = self.parents[checkpoint_id]
        while parent is not None and parent not in kept:
            parent = self.parents.get(parent)
        return parent


class PruneStore:
    """The tables of checkpoints, seen as something that grows."""

    def __init__(self, pool: AsyncConnectionPool[Any]) -> None:
        self._pool = pool

    async def lineage(self, thread_id: str) -> Lineage:
        async with self._pool.connection() as conn:
            cursor = await conn.execute(
                """SELECT checkpoint_id, parent_checkpoint_id FROM checkpoints
                   WHERE thread_id = %s AND checkpoint_ns = ''""",
                (thread_id,),
            )
            parents = {row["checkpoint_id"]: row["parent_checkpoint_id"] for row in await cursor.fetchall()}
            cursor = await conn.execute(_UNDOABLE, {"thread": thread_id})
            undoable = [row["checkpoint_id"] for row in await cursor.fetchall()]
        return Lineage(max(parents, default=None), parents, undoable)

    async def prune(
        self, thread_id: str, holder: str, lineage: Lineage, snapshots: Sequence[Snapshot]
    ) -> int | None:
        """Remove all checkpoints but those that ``lineage`` keeps, which get ``snapshots``; with them goes what
        subgraphs stored for them. Returns how many, None when ``holder`` does not hold the thread any more."""
        async with self._pool.connection() as conn, conn.transaction():
            held = await conn.execute(_HELD, (thread_id, holder))
            if await held.fetchone() is None:
                return None
            for snapshot in snapshots:
                await _store(conn, thread_id, snapshot)
            kept = lineage.kept
            for checkpoint_id in kept:
                await conn.execute(_RELINK, (lineage.kept_parent(checkpoint_id), thread_id, checkpoint_id))
            place = {"thread": thread_id, "kept": kept}
            for statement in (*_REMOVE_SUBGRAPHS, _REMOVE_WRITES, _REMOVE_STATE_UPDATES):
                await conn.execute(statement, place)
            removed = (await conn.execute(_REMOVE_CHECKPOINTS, place)).rowcount
            await conn.execute(_REMOVE_BLOBS, place)
            await conn.execute("UPDATE threads SET pruned_at = now() WHERE thread_id = %s", (thread_id,))
            return removed

    async def remove_events(self, older_than_s: float) -> int:
        """Remove the events of runs that ended so long ago, but for the last one, which says that the run is over.
        Returns how many."""
        removed = 0
        while True:
            async with self._pool.connection() as conn:
                cursor = await conn.execute(
                    _REMOVE_EVENTS, {"age": older_than_s, "end": TERMINAL_EVENT, "limit": _RUNS_AT_ONCE}
                )
            removed += cursor.rowcount
            if cursor.rowcount == 0:
                return removed


async def _store(conn: AsyncConnection[Any], thread_id: str, snapshot: Snapshot) -> None:
    await conn.execute(
        """INSERT INTO checkpoint_blobs (thread_id, checkpoint_ns, channel, version, type, blob)
           VALUES (%s, '', %s, %s, %s, %s) ON CONFLICT DO NOTHING""",
        (thread_id, snapshot.channel, snapshot.version, snapshot.type, snapshot.blob),
    )
    await conn.execute(
        """UPDATE checkpoints SET checkpoint = jsonb_set(checkpoint, ARRAY['channel_values', %s::text], 'true')
           WHERE thread_id = %s AND checkpoint_ns = '' AND checkpoint_id = %s""",
        (snapshot.channel, thread_id, snapshot.checkpoint_id),
    )


_HELD = """
SELECT 1 FROM threads WHERE thread_id = %s AND reserved_by = %s AND reserved_until > now() FOR UPDATE
"""
# The newest compaction, undo or redo that took effect, and what it took back or repeated.
_UNDOABLE = """
WITH newest AS (
    SELECT compaction_id, target_id FROM compactions
    WHERE thread_id = %(thread)s AND checkpoint_ns = '' AND checkpoint_after IS NOT NULL
      AND status IN ('committed', 'undone')
    ORDER BY position DESC LIMIT 1
)
SELECT checkpoint_id FROM newest
JOIN compactions c ON c.thread_id = %(thread)s AND c.compaction_id IN (newest.compaction_id, newest.target_id)
CROSS JOIN unnest(ARRAY[c.checkpoint_before, c.checkpoint_after]) AS checkpoint_id
WHERE checkpoint_id IS NOT NULL
"""
_RELINK = """
UPDATE checkpoints SET parent_checkpoint_id = %s WHERE thread_id = %s AND checkpoint_ns = '' AND checkpoint_id = %s
"""
# A subgraph's call has a namespace of its own, with a ":" in it, and goes with the checkpoint that it was made from.
# The state of a subgraph that keeps it between calls stays.
_CALLS = """(
    SELECT checkpoint_ns FROM checkpoints WHERE thread_id = %(thread)s AND checkpoint_ns LIKE '%%:%%'
    GROUP BY checkpoint_ns
    HAVING bool_and(metadata->'parents'->>'' IS NOT NULL AND metadata->'parents'->>'' <> ALL(%(kept)s))
)"""
_REMOVE_SUBGRAPHS = (
    f"DELETE FROM checkpoint_writes WHERE thread_id = %(thread)s AND checkpoint_ns IN {_CALLS}",
    f"DELETE FROM checkpoint_blobs WHERE thread_id = %(thread)s AND checkpoint_ns IN {_CALLS}",
    f"DELETE FROM checkpoints WHERE thread_id = %(thread)s AND checkpoint_ns IN {_CALLS}",
)
_REMOVE_WRITES = """
DELETE FROM checkpoint_writes
WHERE thread_id = %(thread)s AND checkpoint_ns = '' AND checkpoint_id <> ALL(%(kept)s)
"""
_REMOVE_CHECKPOINTS = """
DELETE FROM checkpoints WHERE thread_id = %(thread)s AND checkpoint_ns = '' AND checkpoint_id <> ALL(%(kept)s)
"""
_REMOVE_STATE_UPDATES = """
DELETE FROM thread_state_updates WHERE thread_id = %(thread)s AND checkpoint_id <> ALL(%(kept)s)
"""
_REMOVE_BLOBS = """
DELETE FROM checkpoint_blobs
WHERE thread_id = %(thread)s AND checkpoint_ns = '' AND (channel, version) NOT IN (
    SELECT v.key, v.value FROM checkpoints c
    CROSS JOIN LATERAL jsonb_each_text(c.checkpoint->'channel_versions') AS v
    WHERE c.thread_id = %(thread)s AND c.checkpoint_ns = '')
"""
_REMOVE_EVENTS = """
DELETE FROM run_events e USING (
    SELECT r.run_id FROM runs r
    WHERE r.finished_at < now() - make_interval(secs => %(age)s)
      AND EXISTS (SELECT 1 FROM run_events x WHERE x.run_id = r.run_id AND x.event <> %(end)s)
    LIMIT %(limit)s
) AS old
WHERE e.run_id = old.run_id AND e.event <> %(end)s
"""
