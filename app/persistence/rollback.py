"""Taking a run back: the thread is as if it had never been started (rule I: rolling back)."""

from __future__ import annotations

import uuid
from typing import Any

from psycopg import AsyncConnection
from psycopg_pool import AsyncConnectionPool

from app.persistence.events import CHANNEL, WEBHOOKS, end_of

_INPUT = "__input__"


def input_task(checkpoint_id: str) -> str:
    """The task id under which LangGraph stores, on the checkpoint that a run starts from, what the run's input adds to
    delta channels."""
    return str(uuid.uuid5(uuid.UUID(checkpoint_id), _INPUT))


class RollbackStore:
    """The rows that a run leaves: its checkpoints and their writes, what it wrote on the one it started from, and its
    place in compaction records. Only the newest checkpoints go, so that no other one loses an ancestor."""

    def __init__(self, pool: AsyncConnectionPool[Any]) -> None:
        self._pool = pool

    async def undo(self, thread_id: str, run_id: str, attempt: int) -> bool:
        """Remove what the run did to its thread. False, and nothing is changed, when the run is not executed by
        ``attempt`` any more."""
        async with self._pool.connection() as conn, conn.transaction():
            held = await conn.execute(
                "SELECT 1 FROM runs WHERE run_id = %s AND attempt = %s AND status = 'running' FOR UPDATE",
                (run_id, attempt),
            )
            if await held.fetchone() is None:
                return False
            base = await _base(conn, thread_id, run_id)
            run = {"thread": thread_id, "run": run_id}
            for statement in (_DELETE_WRITES, _DELETE_CHECKPOINTS, _MARK_RECORDS):
                await conn.execute(statement, run)
            if base:
                await conn.execute(
                    _CLEAN_BASE, {"thread": thread_id, "base": base, "input": input_task(base)}
                )
            return True

    async def remove(self, run_id: str, attempt: int) -> None:
        """Delete the run itself, with its events, and wake those who follow it."""
        async with self._pool.connection() as conn:
            await conn.execute(
                _REMOVE, {"run": run_id, "attempt": attempt, "channel": CHANNEL, "end": end_of(run_id)}
            )


async def _base(conn: AsyncConnection[Any], thread_id: str, run_id: str) -> str | None:
    """The checkpoint that the run started from: the parent of its first one, or the newest while it has none. None when
    it began the thread."""
    cursor = await conn.execute(_BASE, {"thread": thread_id, "run": run_id})
    row = await cursor.fetchone()
    return row["base"] if row else None


_BASE = """
SELECT CASE WHEN metadata->>'run_id' = %(run)s THEN parent_checkpoint_id ELSE checkpoint_id END AS base
FROM checkpoints WHERE thread_id = %(thread)s AND checkpoint_ns = ''
ORDER BY (metadata->>'run_id' = %(run)s) DESC NULLS LAST,
    CASE WHEN metadata->>'run_id' = %(run)s THEN checkpoint_id END, checkpoint_id DESC
LIMIT 1
"""
_DELETE_WRITES = """
DELETE FROM checkpoint_writes w USING checkpoints c
WHERE c.thread_id = %(thread)s AND c.metadata->>'run_id' = %(run)s AND w.thread_id = c.thread_id
  AND w.checkpoint_ns = c.checkpoint_ns AND w.checkpoint_id = c.checkpoint_id
"""
_DELETE_CHECKPOINTS = "DELETE FROM checkpoints WHERE thread_id = %(thread)s AND metadata->>'run_id' = %(run)s"
_MARK_RECORDS = """
UPDATE compactions SET status = 'rolled_back'
WHERE thread_id = %(thread)s AND run_id = %(run)s AND status IN ('committed', 'committing')
"""
# On the checkpoint it started from, a run stores its input, the answer it brings, and what answered tasks then write.
_CLEAN_BASE = """
DELETE FROM checkpoint_writes w
WHERE w.thread_id = %(thread)s AND w.checkpoint_ns = '' AND w.checkpoint_id = %(base)s AND (
    w.task_id = %(input)s OR w.channel = '__resume__'
    OR (w.channel <> '__interrupt__' AND EXISTS (
        SELECT 1 FROM checkpoint_writes i WHERE i.thread_id = w.thread_id AND i.checkpoint_ns = w.checkpoint_ns
          AND i.checkpoint_id = w.checkpoint_id AND i.task_id = w.task_id AND i.channel = '__interrupt__')))
"""
# Its webhook, which somebody else may have asked for, is told all the same.
_REMOVE = f"""
WITH gone AS (
    DELETE FROM runs WHERE run_id = %(run)s AND attempt = %(attempt)s AND status = 'running' RETURNING *
), hook AS (
    INSERT INTO webhook_deliveries (run_id, thread_id, kept_thread, url, run)
    SELECT run_id, thread_id, CASE WHEN t.temporary THEN NULL ELSE thread_id END, webhook,
        to_jsonb(gone) || jsonb_build_object('status', 'interrupted', 'finished_at', now())
    FROM gone JOIN threads t USING (thread_id) WHERE webhook IS NOT NULL
    RETURNING delivery_id
)
SELECT pg_notify(%(channel)s, subject) FROM gone, unnest(ARRAY[gone.run_id::text, %(end)s]) AS subject
UNION ALL SELECT pg_notify(%(channel)s, '{WEBHOOKS}') FROM hook
"""
