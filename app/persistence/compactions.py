"""Compaction records: what was removed, what stood where, and how it ended.

A commit has two halves that cannot share a transaction: the archive (ours) and the state write (the checkpointer's).
The archive and the record go first, the record as ``committing``; the checkpointer reports the stored checkpoint and
the record becomes ``committed``. A process killed in between leaves a ``committing`` record, which ``settle`` decides
later from the checkpoint metadata: nothing is lost and nothing counts twice (rule F1).
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Literal

from langchain_core.messages import BaseMessage
from psycopg import AsyncConnection
from psycopg.types.json import Jsonb
from psycopg_pool import AsyncConnectionPool

from app.compaction.types import CompactionKind
from app.persistence.discretion import Discretion
from app.persistence.packs import pack, unpack
from app.persistence.pins import refuse_pinned
from app.serialization import dumps_jsonb

RecordStatus = Literal["committing", "committed", "draft", "skipped", "failed", "undone", "rolled_back"]
InTransaction = Callable[[AsyncConnection[Any]], Awaitable[None]]
RecordKind = CompactionKind | Literal["undo", "redo"]
"""An undo takes a compaction back and a redo repeats it: they are recorded as compactions are."""


@dataclass(frozen=True, slots=True)
class CompactionRecord:
    """What one compaction did or why it did nothing (rule F4). Tokens count the whole request, duration is in ms.

    ``checkpoint_ns`` is empty for the thread's own conversation, else it names that of a subagent in the run.
    ``previous_id`` is the record whose marker stood in the state before, whatever its kind; ``target_id`` is the
    compaction that an undo takes back or a redo repeats.
    """

    compaction_id: str
    thread_id: str
    run_id: str | None
    kind: RecordKind
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
    edited: bool = False
    checkpoint_before: str | None = None
    checkpoint_after: str | None = None
    checkpoint_ns: str = ""
    agent_name: str | None = None
    previous_id: str | None = None
    target_id: str | None = None
    created_at: datetime | None = None


class CompactionStore:
    """The table ``compactions``; what a compaction removes goes into the archive with its record."""

    def __init__(self, pool: AsyncConnectionPool[Any], discretion: Discretion | None = None) -> None:
        self._pool = pool
        self._discretion = discretion or Discretion()

    async def begin(
        self,
        record: CompactionRecord,
        removed: Sequence[BaseMessage],
        seen_ids: Sequence[str | None],
        waived_pins: frozenset[str] = frozenset(),
        first: InTransaction | None = None,
    ) -> None:
        """Archive ``removed`` and write the record as ``committing``, in one transaction. ``seen_ids`` are those of
        all messages in the state, in their order. Raises MessagePinned for a removed message that is pinned, but
        for those in ``waived_pins``. ``first`` is done first, in the same transaction."""
        archived = await self._discretion.archived(removed)
        async with self._pool.connection() as conn, conn.transaction():
            if first:
                await first(conn)
            await _insert(conn, self._discretion.record(record), removed, seen_ids)
            if not record.checkpoint_ns:
                free = {message.id for message in removed} - waived_pins
                await refuse_pinned(conn, record.thread_id, free)
            await pack(conn, record.thread_id, record.compaction_id, archived)

    async def committed(
        self, thread_id: str, compaction_id: str, before: str | None, after: str
    ) -> CompactionRecord | None:
        """The checkpoint ``after`` that holds the compaction is stored. None when that is known already."""
        place = {"thread": thread_id, "id": compaction_id, "before": before, "after": after}
        async with self._pool.connection() as conn:
            row = await (await conn.execute(_COMMITTED, place)).fetchone()
            return _record(row) if row else None

    async def add(self, record: CompactionRecord) -> None:
        """Write a record that changed no state (skipped or failed)."""
        async with self._pool.connection() as conn:
            await _insert(conn, self._discretion.record(record))

    async def abandon(self, thread_id: str, compaction_id: str, error: str) -> None:
        """The state write of a begun compaction failed; its archive rows stay, they do no harm."""
        async with self._pool.connection() as conn:
            await conn.execute(
                """UPDATE compactions SET status = 'failed', reason = 'not_committed', error = %s
                   WHERE thread_id = %s AND compaction_id = %s AND status = 'committing'""",
                (self._discretion.text(error), thread_id, compaction_id),
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
                    position < (SELECT position FROM compactions
                                WHERE thread_id = %(thread)s AND compaction_id = %(before)s::uuid))
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

    async def newest_undo(self, thread_id: str, checkpoint_id: str) -> str | None:
        """The id of the last undo that led to the checkpoint, as far back as its ancestors were not pruned."""
        async with self._pool.connection() as conn:
            cursor = await conn.execute(_NEWEST_UNDO, {"thread": thread_id, "head": checkpoint_id})
            row = await cursor.fetchone()
            return str(row["compaction_id"]) if row else None

    async def several(self, thread_id: str, compaction_ids: Sequence[str]) -> dict[str, CompactionRecord]:
        """Those of these ids that there are."""
        async with self._pool.connection() as conn:
            cursor = await conn.execute(
                f"SELECT {_COLUMNS} FROM compactions WHERE thread_id = %s AND compaction_id = ANY(%s::uuid[])",
                (thread_id, list(compaction_ids)),
            )
            records = [_record(row) for row in await cursor.fetchall()]
            return {record.compaction_id: record for record in records}

    async def removed_messages(self, thread_id: str, compaction_id: str) -> list[str]:
        """The archived messages of one compaction as JSON texts, in their order."""
        await unpack(self._pool, thread_id)
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


async def _insert(
    conn: AsyncConnection[Any],
    record: CompactionRecord,
    removed: Sequence[BaseMessage] = (),
    seen_ids: Sequence[str | None] = (),
) -> None:
    await conn.execute(
        _INSERT,
        {
            **{name: getattr(record, name) for name in _NAMES},
            "models_tried": Jsonb(list(record.models_tried), dumps=dumps_jsonb),
            "usage": Jsonb(dict(record.usage), dumps=dumps_jsonb),
            "removed_ids": [message.id for message in removed],
            "seen_ids": list(seen_ids),
        },
    )


def _record(row: Mapping[str, Any]) -> CompactionRecord:
    ids = {name: str(row[name]) if row[name] else None for name in _IDS}
    return CompactionRecord(**{**row, **ids, "usage": row["usage"] or {}})


_NAMES = tuple(
    name
    for name in CompactionRecord.__dataclass_fields__
    if name not in {"created_at", "usage", "models_tried"}
)
_IDS = ("compaction_id", "run_id", "previous_id", "target_id")
_COLUMNS = ", ".join(CompactionRecord.__dataclass_fields__)
_INSERT = (
    f"INSERT INTO compactions ({', '.join(_NAMES)}, usage, models_tried, removed_ids, seen_ids) "
    f"VALUES ({', '.join(f'%({name})s' for name in _NAMES)}, %(usage)s, %(models_tried)s, "
    "%(removed_ids)b::text[], %(seen_ids)b::text[])"
)

# An undo takes back its target and the redos of it, a redo takes back the undos and brings its target into force.
_RETELL = """
UPDATE compactions c SET status =
    CASE WHEN c.compaction_id = told.target_id AND told.kind = 'redo' THEN 'committed' ELSE 'undone' END
FROM {told} told
WHERE told.status = 'committed' AND told.target_id IS NOT NULL AND c.thread_id = told.thread_id
  AND (c.compaction_id = told.target_id
       OR (c.target_id = told.target_id AND c.kind <> told.kind AND c.status = 'committed'))
"""

# The breaker counts failures to compact; an undo is no success of that kind.
_COMMITTED = f"""
WITH record AS (
    UPDATE compactions SET status = 'committed', reason = NULL, error = NULL, checkpoint_before = %(before)s,
        checkpoint_after = %(after)s
    WHERE thread_id = %(thread)s AND compaction_id = %(id)s AND status IN ('committing', 'failed')
    RETURNING {_COLUMNS}
), target AS (
    {_RETELL.format(told="record")}
), thread AS (
    UPDATE threads SET last_compaction_id = record.compaction_id, compaction_failures = 0,
        compaction_retry_at = NULL, compaction_last_error = NULL
    FROM record WHERE threads.thread_id = record.thread_id AND record.checkpoint_ns = ''
      AND record.kind NOT IN ('undo', 'redo')
)
SELECT * FROM record
"""

_SETTLE = f"""
WITH decided AS (
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
    WHERE o.thread_id = %s AND o.status = 'committing'
      AND c.thread_id = o.thread_id AND c.compaction_id = o.compaction_id
      AND NOT EXISTS (SELECT 1 FROM threads t WHERE t.thread_id = o.thread_id AND t.reserved_until > now())
      AND NOT EXISTS (
          SELECT 1 FROM runs r WHERE r.thread_id = o.thread_id AND r.status IN ('pending', 'running'))
    RETURNING c.thread_id, c.kind, c.target_id, c.status
)
{_RETELL.format(told="decided")}"""

_NEWEST_UNDO = """
WITH RECURSIVE line AS (
    SELECT checkpoint_id, parent_checkpoint_id, 0 AS age FROM checkpoints
    WHERE thread_id = %(thread)s AND checkpoint_ns = '' AND checkpoint_id = %(head)s
    UNION ALL
    SELECT c.checkpoint_id, c.parent_checkpoint_id, line.age + 1 FROM line
    JOIN checkpoints c ON c.thread_id = %(thread)s AND c.checkpoint_ns = ''
        AND c.checkpoint_id = line.parent_checkpoint_id
)
SELECT c.compaction_id FROM compactions c JOIN line ON line.checkpoint_id = c.checkpoint_after
WHERE c.thread_id = %(thread)s AND c.kind = 'undo' AND c.status IN ('committed', 'undone')
ORDER BY line.age LIMIT 1
"""
