"""Compaction records and the archive of what compactions removed.

A commit has two halves that cannot share a transaction: the archive (ours) and the state write (the checkpointer's).
The archive and the record go first, the record as ``committing``; the checkpointer reports the stored checkpoint and
the record becomes ``committed``. A process killed in between leaves a ``committing`` record, which ``settle`` decides
later from the checkpoint metadata: nothing is lost and nothing counts twice (rule F1).
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Literal

from langchain_core.messages import BaseMessage
from psycopg import AsyncConnection
from psycopg.types.json import Jsonb
from psycopg_pool import AsyncConnectionPool

from app.compaction.types import CompactionKind
from app.serialization import dumps, dumps_jsonb

RecordStatus = Literal["committing", "committed", "draft", "skipped", "failed", "undone", "rolled_back"]


@dataclass(frozen=True, slots=True)
class CompactionRecord:
    """What one compaction did or why it did nothing (rule F4). Tokens count the whole request, duration is in ms.

    ``checkpoint_ns`` is empty for the thread's own conversation, else it names that of a subagent in the run.
    """

    compaction_id: str
    thread_id: str
    run_id: str | None
    kind: CompactionKind
    status: RecordStatus
    tokens_before: int = 0
    tokens_after: int | None = None
    removed_message_count: int = 0
    preserved_message_count: int = 0
    reason: str | None = None
    model_name: str | None = None
    models_tried: Sequence[Mapping[str, Any]] = ()
    trigger: str | None = None
    coverage: float | None = None
    duration_ms: int = 0
    usage: Mapping[str, int] = field(default_factory=dict)
    instructions: str | None = None
    error: str | None = None
    summary_text: str | None = None
    extractive: bool = False
    checkpoint_before: str | None = None
    checkpoint_after: str | None = None
    checkpoint_ns: str = ""
    agent_name: str | None = None
    created_at: datetime | None = None


@dataclass(frozen=True, slots=True)
class Breaker:
    """Failed automatic compactions in a row, and until when the next one waits (rule E3)."""

    failures: int
    waiting: bool
    retry_at: datetime | None
    last_error: str | None


class CompactionStore:
    """The ``compactions`` and ``archived_messages`` tables, and the breaker columns of ``threads``."""

    def __init__(self, pool: AsyncConnectionPool[Any]) -> None:
        self._pool = pool

    async def begin(self, record: CompactionRecord, removed: Sequence[BaseMessage]) -> None:
        """Archive ``removed`` and write the record as ``committing``, in one transaction. Archiving a message again
        (same id, same content) changes nothing."""
        async with self._pool.connection() as conn, conn.transaction():
            await _insert(conn, record)
            await _archive(conn, record, removed)

    async def committed(self, compaction_id: str, before: str | None, after: str) -> CompactionRecord | None:
        """The checkpoint ``after`` that holds the compaction is stored. None when that is known already."""
        async with self._pool.connection() as conn:
            cursor = await conn.execute(_COMMITTED, {"id": compaction_id, "before": before, "after": after})
            row = await cursor.fetchone()
            return _record(row) if row else None

    async def add(self, record: CompactionRecord) -> None:
        """Write a record that changed no state (skipped or failed)."""
        async with self._pool.connection() as conn:
            await _insert(conn, record)

    async def abandon(self, compaction_id: str, error: str) -> None:
        """The state write of a begun compaction failed; its archive rows stay, they do no harm."""
        async with self._pool.connection() as conn:
            await conn.execute(
                """UPDATE compactions SET status = 'failed', reason = 'not_committed', error = %s
                   WHERE compaction_id = %s AND status = 'committing'""",
                (error, compaction_id),
            )

    async def settle(self, thread_id: str) -> None:
        """Decide the ``committing`` records of a thread, unless a run or a reservation says that somebody is at work:
        committed when a checkpoint carries the id, else failed."""
        async with self._pool.connection() as conn:
            await conn.execute(_SETTLE, (thread_id,))

    async def page(
        self, thread_id: str, limit: int, before: str | None, checkpoint_ns: str = ""
    ) -> list[CompactionRecord]:
        """Those of one conversation, newest first; ``before`` is the id of the last record of the page before."""
        async with self._pool.connection() as conn:
            cursor = await conn.execute(
                f"""SELECT {_COLUMNS} FROM compactions
                    WHERE thread_id = %(thread)s AND checkpoint_ns = %(ns)s AND (%(before)s::uuid IS NULL OR
                    position < (SELECT position FROM compactions WHERE compaction_id = %(before)s::uuid))
                    ORDER BY position DESC LIMIT %(limit)s""",
                {"thread": thread_id, "ns": checkpoint_ns, "before": before, "limit": limit},
            )
            return [_record(row) for row in await cursor.fetchall()]

    async def get(self, thread_id: str, compaction_id: str) -> CompactionRecord | None:
        async with self._pool.connection() as conn:
            cursor = await conn.execute(
                f"SELECT {_COLUMNS} FROM compactions WHERE thread_id = %s AND compaction_id = %s",
                (thread_id, compaction_id),
            )
            row = await cursor.fetchone()
            return _record(row) if row else None

    async def removed_messages(self, thread_id: str, compaction_id: str) -> list[str]:
        """The archived messages of one compaction as JSON texts, in their order."""
        async with self._pool.connection() as conn:
            cursor = await conn.execute(
                """SELECT a.message FROM compactions c
                   CROSS JOIN unnest(c.removed_ids, c.removed_digests) WITH ORDINALITY AS r(id, digest, number)
                   JOIN archived_messages a
                     ON a.thread_id = c.thread_id AND a.checkpoint_ns = c.checkpoint_ns
                    AND a.message_id = r.id AND a.digest = r.digest
                   WHERE c.thread_id = %s AND c.compaction_id = %s ORDER BY r.number""",
                (thread_id, compaction_id),
            )
            return [row["message"] for row in await cursor.fetchall()]

    async def breaker(self, thread_id: str) -> Breaker:
        async with self._pool.connection() as conn:
            cursor = await conn.execute(_BREAKER, (thread_id,))
            row = await cursor.fetchone()
            return Breaker(**row) if row else Breaker(0, False, None, None)

    async def breaker_within(
        self, thread_id: str, checkpoint_ns: str, threshold: int, pause_s: float, longest_s: float
    ) -> Breaker:
        """The breaker of a conversation inside a run: its own records are the count, the thread's is left alone."""
        async with self._pool.connection() as conn:
            cursor = await conn.execute(
                _BREAKER_WITHIN,
                {
                    "t": thread_id,
                    "ns": checkpoint_ns,
                    "n": threshold,
                    "pause": pause_s,
                    "longest": longest_s,
                },
            )
            row = await cursor.fetchone()
            return Breaker(**row) if row else Breaker(0, False, None, None)

    async def failed(
        self, thread_id: str, error: str, threshold: int, pause_s: float, longest_s: float
    ) -> None:
        """Count a failed automatic compaction. From ``threshold`` in a row on, the next one waits ``pause_s``, doubled
        with each further failure, at most ``longest_s`` seconds."""
        async with self._pool.connection() as conn:
            await conn.execute(
                _FAILED,
                {"t": thread_id, "e": error, "n": threshold, "pause": pause_s, "longest": longest_s},
            )


async def _insert(conn: AsyncConnection[Any], record: CompactionRecord) -> None:
    await conn.execute(
        _INSERT,
        {
            **{name: getattr(record, name) for name in _NAMES},
            "models_tried": Jsonb(list(record.models_tried), dumps=dumps_jsonb),
            "usage": Jsonb(dict(record.usage), dumps=dumps_jsonb),
        },
    )


async def _archive(
    conn: AsyncConnection[Any], record: CompactionRecord, removed: Sequence[BaseMessage]
) -> None:
    cursor = await conn.execute(
        """SELECT coalesce(max(position), -1) + 1 AS next FROM archived_messages
           WHERE thread_id = %s AND checkpoint_ns = %s""",
        (record.thread_id, record.checkpoint_ns),
    )
    row = await cursor.fetchone()
    first = row["next"] if row else 0
    texts = [dumps(message).decode() for message in removed]
    await conn.execute(
        _ARCHIVE,
        {
            "thread": record.thread_id,
            "ns": record.checkpoint_ns,
            "compaction": record.compaction_id,
            "run": record.run_id,
            "ids": [message.id for message in removed],
            "digests": [hashlib.sha256(text.encode()).hexdigest() for text in texts],
            "positions": [first + offset for offset in range(len(texts))],
            "texts": texts,
        },
    )


def _record(row: Mapping[str, Any]) -> CompactionRecord:
    return CompactionRecord(
        **{
            **row,
            "compaction_id": str(row["compaction_id"]),
            "run_id": str(row["run_id"]) if row["run_id"] else None,
            "usage": row["usage"] or {},
        }
    )


_NAMES = tuple(
    name
    for name in CompactionRecord.__dataclass_fields__
    if name not in {"created_at", "usage", "models_tried"}
)
_COLUMNS = ", ".join(CompactionRecord.__dataclass_fields__)
_INSERT = (
    f"INSERT INTO compactions ({', '.join(_NAMES)}, usage, models_tried) "
    f"VALUES ({', '.join(f'%({name})s' for name in _NAMES)}, %(usage)s, %(models_tried)s)"
)

# What an earlier compaction archived and did not commit belongs to the one that does.
_ARCHIVE = """
WITH removed AS (
    SELECT * FROM unnest(%(ids)s::text[], %(digests)s::text[], %(positions)s::bigint[], %(texts)s::text[])
        AS m(id, digest, position, message)
), noted AS (
    UPDATE compactions SET removed_ids = %(ids)s::text[], removed_digests = %(digests)s::text[]
    WHERE compaction_id = %(compaction)s
)
INSERT INTO archived_messages AS a
    (thread_id, checkpoint_ns, message_id, digest, compaction_id, position, run_id, message)
SELECT %(thread)s, %(ns)s, m.id, m.digest, %(compaction)s, m.position, %(run)s, m.message FROM removed m
ON CONFLICT (thread_id, checkpoint_ns, message_id, digest) DO UPDATE
    SET compaction_id = EXCLUDED.compaction_id, run_id = EXCLUDED.run_id
    WHERE NOT EXISTS (
        SELECT 1 FROM compactions c WHERE c.compaction_id = a.compaction_id AND c.status = 'committed')
"""

_COMMITTED = f"""
WITH record AS (
    UPDATE compactions SET status = 'committed', reason = NULL, error = NULL, checkpoint_before = %(before)s,
        checkpoint_after = %(after)s
    WHERE compaction_id = %(id)s AND status IN ('committing', 'failed') RETURNING {_COLUMNS}
), thread AS (
    UPDATE threads SET last_compaction_id = record.compaction_id, compaction_failures = 0,
        compaction_retry_at = NULL, compaction_last_error = NULL
    FROM record WHERE threads.thread_id = record.thread_id AND record.checkpoint_ns = ''
)
SELECT * FROM record
"""

_SETTLE = """
UPDATE compactions c SET
    status = CASE WHEN k.checkpoint_id IS NULL THEN 'failed' ELSE 'committed' END,
    reason = CASE WHEN k.checkpoint_id IS NULL THEN 'not_committed' END,
    error = CASE WHEN k.checkpoint_id IS NULL THEN 'it ended before the commit' END,
    checkpoint_before = k.parent_checkpoint_id, checkpoint_after = k.checkpoint_id
FROM compactions o
LEFT JOIN LATERAL (
    SELECT checkpoint_id, parent_checkpoint_id FROM checkpoints
    WHERE thread_id = o.thread_id AND metadata->'compaction_ids' ? o.compaction_id::text
    ORDER BY checkpoint_id LIMIT 1) k ON true
WHERE o.thread_id = %s AND o.status = 'committing' AND c.compaction_id = o.compaction_id
  AND NOT EXISTS (SELECT 1 FROM threads t WHERE t.thread_id = o.thread_id AND t.reserved_until > now())
  AND NOT EXISTS (SELECT 1 FROM runs r WHERE r.thread_id = o.thread_id AND r.status IN ('pending', 'running'))
"""

_BREAKER = """
SELECT compaction_failures AS failures, coalesce(compaction_retry_at > now(), false) AS waiting,
       compaction_retry_at AS retry_at, compaction_last_error AS last_error
FROM threads WHERE thread_id = %s
"""

_BREAKER_WITHIN = """
WITH failures AS (
    SELECT created_at, coalesce(error, reason) AS error, position,
           make_interval(secs => least(%(longest)s, %(pause)s * 2 ^ (count(*) OVER () - %(n)s))) AS pause
    FROM compactions
    WHERE thread_id = %(t)s AND checkpoint_ns = %(ns)s AND kind = 'auto' AND status IN ('failed', 'skipped')
      AND position > (SELECT coalesce(max(position), 0) FROM compactions
                      WHERE thread_id = %(t)s AND checkpoint_ns = %(ns)s AND status = 'committed')
)
SELECT count(*) AS failures,
       count(*) >= %(n)s AND max(created_at + pause) > now() AS waiting,
       CASE WHEN count(*) >= %(n)s THEN max(created_at + pause) END AS retry_at,
       (array_agg(error ORDER BY position DESC))[1] AS last_error
FROM failures
"""

_FAILED = """
UPDATE threads SET compaction_failures = compaction_failures + 1, compaction_last_error = %(e)s,
    compaction_retry_at = CASE WHEN compaction_failures + 1 >= %(n)s THEN
        now() + make_interval(secs => least(%(longest)s, %(pause)s * 2 ^ (compaction_failures + 1 - %(n)s))) END
WHERE thread_id = %(t)s
"""
