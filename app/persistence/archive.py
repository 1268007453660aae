"""The archive: every message that a compaction removed, as exactly as the thread's state held it.

What compactions wrote down in haste is sorted in before any of it is read.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from langchain_core.messages import BaseMessage
from psycopg_pool import AsyncConnectionPool

from app.compaction.chain import Link
from app.compaction.timeline import Place, Removal
from app.persistence.encoding import decode, from_json
from app.persistence.packs import unpack

# Some twenty megabytes: two threads of 50,000 messages.
_MOST_KNOWN = 250_000


@dataclass(frozen=True, slots=True)
class Archived:
    """A message in the archive. ``text`` is its JSON."""

    message_id: str
    digest: str
    text: str = field(repr=False)


class ArchiveStore:
    """What is known of the past of a thread's conversation: who removed what, from where, and the messages."""

    def __init__(self, pool: AsyncConnectionPool[Any]) -> None:
        self._pool = pool
        self._removals: dict[tuple[str, str], Removal] = {}
        self._known = 0

    async def links(self, thread_id: str) -> dict[str, Link]:
        """The records that changed the state of the thread's own conversation, by id."""
        async with self._pool.connection() as conn:
            cursor = await conn.execute(_LINKS, (thread_id,))
            return {row["compaction_id"]: Link(**row) for row in await cursor.fetchall()}

    async def removals(self, thread_id: str, compaction_ids: Sequence[str]) -> list[Removal]:
        """What these compactions, which stand in a state, removed, in the order of the ids; those that are not known
        are left out. What is asked for again is remembered: it never changes."""
        known = {made: self._removals.get((thread_id, made)) for made in compaction_ids}
        if missing := [made for made, removal in known.items() if removal is None]:
            async with self._pool.connection() as conn:
                cursor = await conn.execute(_REMOVALS, (missing, thread_id))
                known |= {row["compaction_id"]: Removal(**row) for row in await cursor.fetchall()}
        found = [removal for removal in known.values() if removal]
        self._remember(thread_id, found)
        return found

    def _remember(self, thread_id: str, removals: Sequence[Removal]) -> None:
        """The last that were asked for, as many as have ``_MOST_KNOWN`` ids together."""
        for removal in removals:
            key = (thread_id, removal.compaction_id)
            if self._removals.pop(key, None) is None:
                self._known += _size(removal)
            self._removals[key] = removal
        while self._known > _MOST_KNOWN:
            self._known -= _size(self._removals.pop(next(iter(self._removals))))

    async def at(self, thread_id: str, places: Iterable[Place]) -> dict[Place, Archived]:
        """The messages at these places that compactions removed; what was erased since is missing."""
        wanted = [place for place in places if place.compaction_id]
        if not wanted:
            return {}
        await unpack(self._pool, thread_id)
        ids, removed_by = [p.message_id for p in wanted], [p.compaction_id for p in wanted]
        async with self._pool.connection() as conn:
            cursor = await conn.execute(_AT, (ids, removed_by, thread_id))
            rows = await cursor.fetchall()
        return {Place(row["message_id"], row.pop("compaction_id")): Archived(**row) for row in rows}

    async def said(self, thread_id: str, message_ids: Sequence[str]) -> dict[str, list[str]]:
        """The forms, as JSON, in which the thread's own messages of these ids were archived on any branch, by id."""
        found: dict[str, list[str]] = {}
        await unpack(self._pool, thread_id)
        async with self._pool.connection() as conn:
            cursor = await conn.execute(_SAID, (thread_id, list(message_ids)))
            for row in await cursor.fetchall():
                found.setdefault(row["message_id"], []).append(row["message"])
        return found

    async def runs_at(self, thread_id: str, moments: Sequence[datetime]) -> dict[datetime, str]:
        """The run that was working at each of these moments, where one was."""
        async with self._pool.connection() as conn:
            cursor = await conn.execute(_RUNS_AT, (list(moments), thread_id))
            return {row["moment"]: row["run_id"] for row in await cursor.fetchall()}

    async def removed(self, thread_id: str, compaction_id: str) -> list[tuple[str, str, BaseMessage | None]]:
        """Id, digest and message of all that a compaction removed, in that order; None for one that was erased."""
        await unpack(self._pool, thread_id)
        async with self._pool.connection() as conn:
            cursor = await conn.execute(_REMOVED, (thread_id, compaction_id))
            return [(row["id"], row["digest"], _message(row)) for row in await cursor.fetchall()]


def _size(removal: Removal) -> int:
    """Ids; the one of the compaction counts, or those without any would be remembered for ever."""
    return 1 + len(removal.seen_ids) + len(removal.removed_ids)


def _message(row: dict[str, Any]) -> BaseMessage | None:
    if row["original"] is not None:
        return decode(bytes(row["original"]))
    return None if row["message"] is None else from_json(row["message"])


_LINKS = """
SELECT compaction_id::text, kind, previous_id::text, target_id::text FROM compactions
WHERE thread_id = %s AND checkpoint_ns = '' AND status NOT IN ('skipped', 'draft')
"""

_REMOVALS = """
SELECT c.compaction_id::text, c.removed_ids, c.seen_ids
FROM unnest(%s::uuid[]) WITH ORDINALITY AS wanted(id, number)
JOIN compactions c ON c.thread_id = %s AND c.compaction_id = wanted.id ORDER BY wanted.number
"""

_SAID = """
SELECT message_id, message FROM archived_messages
WHERE thread_id = %s AND checkpoint_ns = '' AND message_id = ANY(%s)
"""
_AT = """
SELECT wanted.compaction_id, a.message_id, a.digest, a.message AS text
FROM unnest(%s::text[], %s::text[]) AS wanted(message_id, compaction_id)
JOIN compactions c ON c.thread_id = %s AND c.compaction_id = wanted.compaction_id::uuid
JOIN archived_messages a ON a.thread_id = c.thread_id AND a.checkpoint_ns = c.checkpoint_ns
    AND a.message_id = wanted.message_id
    AND a.digest = c.removed_digests[array_position(c.removed_ids, wanted.message_id)]
"""

_RUNS_AT = """
SELECT wanted.moment, r.run_id::text
FROM unnest(%s::timestamptz[]) AS wanted(moment)
JOIN LATERAL (
    SELECT run_id FROM runs
    WHERE thread_id = %s AND started_at <= wanted.moment AND coalesce(finished_at, 'infinity') >= wanted.moment
    ORDER BY position DESC LIMIT 1) r ON true
"""

_REMOVED = """
SELECT r.id, r.digest, a.original, CASE WHEN a.original IS NULL THEN a.message END AS message
FROM compactions c
CROSS JOIN unnest(c.removed_ids, c.removed_digests) WITH ORDINALITY AS r(id, digest, number)
LEFT JOIN archived_messages a ON a.thread_id = c.thread_id AND a.checkpoint_ns = c.checkpoint_ns
    AND a.message_id = r.id AND a.digest = r.digest
WHERE c.thread_id = %s AND c.compaction_id = %s ORDER BY r.number
"""
