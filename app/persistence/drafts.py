"""Drafts of compactions: what a record of the status ``draft`` may be applied to, and until when."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from functools import partial
from typing import Any

from psycopg import AsyncConnection
from psycopg_pool import AsyncConnectionPool

from app.compaction.cover import Cover
from app.errors import DraftApplied
from app.persistence.compactions import InTransaction

# Who comes too late is told so for a while, before there is nothing left to be told of.
KEPT_EXPIRED_S = 3600.0


@dataclass(frozen=True, slots=True)
class NewDraft:
    """A draft that is about to be stored. ``graph_name`` says as which graph its thread is written to;
    ``summary_digest`` and ``marker`` are those of the summary and the compaction that the state was the result of."""

    thread_id: str
    compaction_id: str
    graph_name: str
    cover: Cover
    summary_digest: str | None
    marker: str | None


@dataclass(frozen=True, slots=True)
class Draft(NewDraft):
    expires_at: datetime
    expired: bool


class DraftStore:
    """The table ``compaction_drafts``. The draft itself, its summary and figures, is a record in ``compactions``."""

    def __init__(self, pool: AsyncConnectionPool[Any]) -> None:
        self._pool = pool

    async def add(self, draft: NewDraft, ttl_s: float) -> datetime:
        """Store a draft that may be applied for ``ttl_s`` seconds, and return when that ends."""
        async with self._pool.connection() as conn:
            cursor = await conn.execute(_ADD, {**_columns(draft), "ttl": ttl_s})
            row = await cursor.fetchone()
            assert row
            expires_at: datetime = row["expires_at"]
            return expires_at

    async def get(self, thread_id: str, compaction_id: str) -> Draft | None:
        async with self._pool.connection() as conn:
            cursor = await conn.execute(
                """SELECT *, expires_at <= now() AS expired FROM compaction_drafts
                   WHERE thread_id = %s AND compaction_id = %s""",
                (thread_id, compaction_id),
            )
            row = await cursor.fetchone()
            return _draft(row) if row else None

    def taking(self, thread_id: str, compaction_id: str) -> InTransaction:
        """What clears the place for the record of the compaction that the draft becomes. Raises DraftApplied when
        somebody else was first."""
        return partial(_take, thread_id=thread_id, compaction_id=compaction_id)

    async def discard(self, thread_id: str, compaction_id: str) -> bool:
        """Delete a draft and its record. False when the record is not that of a draft."""
        async with self._pool.connection() as conn:
            cursor = await conn.execute(_DISCARD, {"thread": thread_id, "id": compaction_id})
            return cursor.rowcount > 0

    async def prune(self) -> None:
        """Delete drafts that expired an hour ago or more, with the records of those that were not applied."""
        async with self._pool.connection() as conn:
            await conn.execute(_PRUNE, (KEPT_EXPIRED_S,))


async def _take(conn: AsyncConnection[Any], *, thread_id: str, compaction_id: str) -> None:
    taken = await conn.execute(_TAKE, {"thread": thread_id, "id": compaction_id})
    if not taken.rowcount:
        raise DraftApplied(f"Draft {compaction_id} was applied or discarded meanwhile")


def _columns(draft: NewDraft) -> dict[str, Any]:
    return {
        "thread": draft.thread_id,
        "id": draft.compaction_id,
        "graph": draft.graph_name,
        "ids": list(draft.cover.ids),
        "digests": list(draft.cover.digests),
        "fates": list(draft.cover.fates),
        "waived": sorted(draft.cover.waived_pins),
        "summary": draft.summary_digest,
        "marker": draft.marker,
    }


def _draft(row: Mapping[str, Any]) -> Draft:
    return Draft(
        thread_id=row["thread_id"],
        compaction_id=str(row["compaction_id"]),
        graph_name=row["graph_name"],
        cover=Cover(
            tuple(row["message_ids"]),
            tuple(row["message_digests"]),
            tuple(row["message_fates"]),
            frozenset(row["waived_pins"]),
        ),
        summary_digest=row["summary_digest"],
        marker=row["marker"],
        expires_at=row["expires_at"],
        expired=row["expired"],
    )


_ADD = """
INSERT INTO compaction_drafts (thread_id, compaction_id, graph_name, message_ids, message_digests, message_fates,
    waived_pins, summary_digest, marker, expires_at)
VALUES (%(thread)s, %(id)s, %(graph)s, %(ids)s, %(digests)s, %(fates)s, %(waived)s, %(summary)s, %(marker)s,
    now() + make_interval(secs => %(ttl)s))
RETURNING expires_at
"""
# An application that failed before it wrote anything leaves a draft that may be applied again.
_TAKE = """
DELETE FROM compactions WHERE thread_id = %(thread)s AND compaction_id = %(id)s
  AND (status = 'draft' OR (status = 'failed' AND reason = 'not_committed'))
"""
_DISCARD = """
WITH gone AS (
    DELETE FROM compactions WHERE thread_id = %(thread)s AND compaction_id = %(id)s AND status = 'draft'
    RETURNING thread_id, compaction_id
), rest AS (
    DELETE FROM compaction_drafts d USING gone
    WHERE d.thread_id = gone.thread_id AND d.compaction_id = gone.compaction_id
)
SELECT 1 FROM gone
"""
_PRUNE = """
WITH gone AS (
    DELETE FROM compaction_drafts WHERE expires_at < now() - make_interval(secs => %s)
    RETURNING thread_id, compaction_id
)
DELETE FROM compactions c USING gone
WHERE c.thread_id = gone.thread_id AND c.compaction_id = gone.compaction_id AND c.status = 'draft'
"""
