"""The index of archived messages: which ones hold which words."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from psycopg import AsyncConnection
from psycopg_pool import AsyncConnectionPool

from app.persistence.packs import unpack

# One transaction of the indexer, so that nobody waits long for it and no memory is needed for more.
_BATCH_MESSAGES = 100
_BATCH_BYTES = 4_000_000
# Parts that are looked at to find the best. Where so many of the newest messages have all words of a query, the words
# say little: older ones and single words are not looked at.
_MOST_WITH_ALL = 500
_ENOUGH_WITH_ALL = 60
_NEWEST = 5000
_MOST_PER_TERM = 100
_MOST_SPELLINGS = 6


@dataclass(frozen=True, slots=True)
class Unindexed:
    """An archived message whose words are not known yet; ``message`` is its JSON."""

    message_id: str
    digest: str
    position: int
    message: str = field(repr=False)


@dataclass(frozen=True, slots=True)
class Words:
    """The words of one part of a message: ``vector`` is a tsvector as text, ``terms`` those to be found by pieces."""

    of: Unindexed
    part: int
    reference: str
    vector: str = field(repr=False)
    terms: Sequence[str] = field(repr=False)


@dataclass(frozen=True, slots=True)
class Place:
    """A part of an archived message, by the message's position in the archive of its thread."""

    position: int
    part: int


@dataclass(frozen=True, slots=True)
class Hits:
    """``every`` are parts with all words of a query, best first; ``by_term`` those with each of the terms that were
    looked for, at most ``_MOST_PER_TERM``; ``total`` is about how many messages the thread's archive has."""

    every: Sequence[Place]
    by_term: dict[str, Sequence[Place]]
    total: int


@dataclass(frozen=True, slots=True)
class Archived:
    """A message of the archive as JSON."""

    message_id: str
    position: int
    message: str = field(repr=False)


class RecallStore:
    """The tables ``recall_words``, ``recall_terms`` and ``recall_pending``."""

    def __init__(self, pool: AsyncConnectionPool[Any]) -> None:
        self._pool = pool

    async def is_behind(self, thread_id: str) -> bool:
        """Whether archived messages of the thread wait to be indexed."""
        async with self._pool.connection() as conn:
            return await _exists(conn, "SELECT 1 FROM recall_pending WHERE thread_id = %s LIMIT 1", thread_id)

    async def threads_behind(self, limit: int) -> list[str]:
        """Threads with something to sort in or to index. A compaction that has yet to write its state is left alone."""
        async with self._pool.connection() as conn:
            cursor = await conn.execute(_BEHIND, (limit,))
            return [row["thread_id"] for row in await cursor.fetchall()]

    async def sort_in(self, thread_id: str) -> None:
        """What waits to become part of the archive becomes one, and waits to be indexed then."""
        await unpack(self._pool, thread_id)

    async def index_next(self, thread_id: str, words: Callable[[Unindexed], Sequence[Words]]) -> None:
        """Index the newest of those that wait, as many as are quickly done. Any number of processes may do it at once.

        ``words`` may take long and raises nothing; it is called in a thread.
        """
        async with self._pool.connection() as conn, conn.transaction():
            row = await (await conn.execute(_NEXT_RANGE, (thread_id,))).fetchone()
            if row is None:
                return
            limits = {"messages": _BATCH_MESSAGES, "bytes": _BATCH_BYTES}
            cursor = await conn.execute(_NEXT, {"thread": thread_id, **row, **limits})
            waiting = [Unindexed(**each) for each in await cursor.fetchall()]
            found = await asyncio.to_thread(lambda: [part for each in waiting for part in words(each)])
            await _write(conn, thread_id, found)
            before = min((each.position for each in waiting), default=row["first"])
            await conn.execute(_LEFT if before > row["first"] else _DONE, {"id": row["id"], "before": before})

    async def hits(self, thread_id: str, words: Sequence[str], terms: Sequence[str]) -> Hits:
        """Where all of ``words`` stand, and where each of ``terms`` does that says more than they do."""
        async with self._pool.connection() as conn:
            row = await (await conn.execute(_TOTAL, (thread_id,))).fetchone()
            total = row["total"] if row else 0
            every = await _every(conn, thread_id, words, max(0, total - _NEWEST))
            if len(every) < _ENOUGH_WITH_ALL and total > _NEWEST:
                every = await _every(conn, thread_id, words, 0)
            if len(every) >= _ENOUGH_WITH_ALL:
                terms = [term for term in terms if term not in words]
            return Hits(every, await _by_term(conn, thread_id, terms), total)

    async def by_term(self, thread_id: str, terms: Sequence[str]) -> dict[str, Sequence[Place]]:
        async with self._pool.connection() as conn:
            return await _by_term(conn, thread_id, terms)

    async def spellings(self, thread_id: str, terms: Sequence[str]) -> dict[str, list[str]]:
        """Words of the thread that hold a term inside, or are written nearly like it."""
        found: dict[str, list[str]] = {}
        async with self._pool.connection() as conn:
            patterns = [f"%{_unwild(term)}%" for term in terms]
            cursor = await conn.execute(
                _SPELLINGS,
                {"thread": thread_id, "terms": list(terms), "patterns": patterns, "most": _MOST_SPELLINGS},
            )
            for row in await cursor.fetchall():
                found.setdefault(row["term"], []).append(row["spelling"])
        return found

    async def messages(
        self, thread_id: str, positions: Sequence[int], compactions: Sequence[str]
    ) -> list[Archived]:
        """Those of the archive at ``positions`` that one of the compactions removed."""
        return await self._archived(
            f"""SELECT a.message_id, a.position, a.message FROM archived_messages a
                WHERE a.thread_id = %(thread)s AND a.checkpoint_ns = '' AND a.position = ANY(%(positions)s)
                  AND {_REMOVED_BY}""",
            {"thread": thread_id, "positions": list(positions), "compactions": list(compactions)},
        )

    async def referred(self, thread_id: str, reference: str, compactions: Sequence[str]) -> list[Archived]:
        """The messages of this reference or id that one of the compactions removed, the newest form of each."""
        return await self._archived(
            f"""SELECT DISTINCT ON (a.message_id) a.message_id, a.position, a.message
                FROM archived_messages a
                WHERE a.thread_id = %(thread)s AND a.checkpoint_ns = '' AND (a.message_id = %(reference)s
                   OR a.message_id IN (SELECT message_id FROM recall_words
                                       WHERE thread_id = %(thread)s AND reference = %(reference)s))
                  AND {_REMOVED_BY}
                ORDER BY a.message_id, a.position DESC""",
            {"thread": thread_id, "reference": reference, "compactions": list(compactions)},
        )

    async def _archived(self, statement: str, parameters: dict[str, Any]) -> list[Archived]:
        async with self._pool.connection() as conn:
            cursor = await conn.execute(statement, parameters)
            return [Archived(**row) for row in await cursor.fetchall()]


async def _exists(conn: AsyncConnection[Any], statement: str, value: str) -> bool:
    return await (await conn.execute(statement, (value,))).fetchone() is not None


async def _write(conn: AsyncConnection[Any], thread_id: str, found: Sequence[Words]) -> None:
    if not found:
        return
    await conn.execute(
        _INSERT_WORDS,
        (
            thread_id,
            *_columns([each.of for each in found], "message_id", "digest", "position"),
            *_columns(found, "part", "reference", "vector"),
        ),
    )
    # In one order, so that two indexers of a thread do not wait for each other.
    terms = sorted({term for each in found for term in each.terms})
    await conn.execute(
        """INSERT INTO recall_terms (thread_id, term) SELECT %s, unnest(%b::text[]) ON CONFLICT DO NOTHING""",
        (thread_id, terms),
    )


async def _every(conn: AsyncConnection[Any], thread_id: str, words: Sequence[str], since: int) -> list[Place]:
    cursor = await conn.execute(
        _EVERY,
        {
            "thread": thread_id,
            "query": " & ".join(map(quoted, words)),
            "since": since,
            "most": _MOST_WITH_ALL,
            "enough": _ENOUGH_WITH_ALL,
        },
    )
    return [Place(**row) for row in await cursor.fetchall()]


async def _by_term(
    conn: AsyncConnection[Any], thread_id: str, terms: Sequence[str]
) -> dict[str, Sequence[Place]]:
    if not terms:
        return {}
    cursor = await conn.execute(
        _BY_TERM, {"thread": thread_id, "queries": list(map(quoted, terms)), "most": _MOST_PER_TERM}
    )
    places: dict[str, list[Place]] = {term: [] for term in terms}
    for row in await cursor.fetchall():
        places[terms[row["number"] - 1]].append(Place(row["position"], row["part"]))
    return dict(places)


def _columns(rows: Sequence[Any], *names: str) -> list[list[Any]]:
    return [[getattr(row, name) for row in rows] for name in names]


def quoted(lexeme: str) -> str:
    """A lexeme as it stands in the text of a tsvector or a tsquery, whatever it holds."""
    return "'" + lexeme.replace("\\", "\\\\").replace("'", "''") + "'"


def _unwild(term: str) -> str:
    return term.replace("\\", "\\\\").replace("%", "\\%").replace("_", "\\_")


_BEHIND = """
SELECT thread_id FROM recall_pending
UNION
SELECT thread_id FROM archive_packs JOIN compactions USING (thread_id, compaction_id) WHERE status <> 'committing'
LIMIT %s
"""

_NEXT_RANGE = """
SELECT id, first_position AS first, last_position AS last FROM recall_pending
WHERE thread_id = %s ORDER BY last_position DESC LIMIT 1 FOR UPDATE
"""

# All messages at one position or none: the rest of the range lies below the last one.
_NEXT = """
WITH next AS (
    SELECT position, message_id, digest, octet_length(message) AS size FROM archived_messages
    WHERE thread_id = %(thread)s AND checkpoint_ns = '' AND position BETWEEN %(first)s AND %(last)s
    ORDER BY position DESC FETCH FIRST %(messages)s ROWS WITH TIES
), summed AS (
    SELECT position, message_id, digest, sum(size) OVER (ORDER BY position DESC) AS so_far,
           max(position) OVER () AS newest
    FROM next
)
SELECT s.position, s.message_id, s.digest, a.message
FROM summed s JOIN archived_messages a
  ON a.thread_id = %(thread)s AND a.checkpoint_ns = '' AND a.message_id = s.message_id AND a.digest = s.digest
WHERE s.so_far < %(bytes)s OR s.position = s.newest
"""

_LEFT = "UPDATE recall_pending SET last_position = %(before)s - 1 WHERE id = %(id)s"
_DONE = "DELETE FROM recall_pending WHERE id = %(id)s"

_INSERT_WORDS = """
INSERT INTO recall_words (thread_id, message_id, digest, position, part, reference, words)
SELECT %s, id, digest, position, part, reference, words::tsvector
FROM unnest(%s::text[], %s::text[], %s::bigint[], %s::int[], %s::text[], %b::text[])
    AS w(id, digest, position, part, reference, words)
ON CONFLICT (thread_id, message_id, digest, part) DO UPDATE
    SET words = EXCLUDED.words, position = EXCLUDED.position, reference = EXCLUDED.reference
"""

# ts_rank_cd prefers words that stand close together.
_EVERY = """
SELECT position, part FROM (
    SELECT position, part, words FROM recall_words
    WHERE thread_id = %(thread)s AND words @@ %(query)s::tsquery AND position >= %(since)s
    ORDER BY position DESC LIMIT %(most)s) newest
ORDER BY ts_rank_cd(words, %(query)s::tsquery) DESC, position DESC LIMIT %(enough)s
"""

_BY_TERM = """
SELECT q.number, h.position, h.part
FROM unnest(%(queries)s::text[]) WITH ORDINALITY AS q(term, number), LATERAL (
    SELECT position, part FROM recall_words
    WHERE thread_id = %(thread)s AND words @@ q.term::tsquery LIMIT %(most)s) h
"""

_TOTAL = """
SELECT coalesce(max(position), 0) + 1 AS total FROM archived_messages
WHERE thread_id = %s AND checkpoint_ns = ''
"""

_SPELLINGS = """
SELECT q.term, h.spelling
FROM unnest(%(terms)s::text[], %(patterns)s::text[]) AS q(term, pattern), LATERAL (
    (SELECT t.term AS spelling FROM recall_terms t
     WHERE t.thread_id = %(thread)s AND t.term LIKE q.pattern ORDER BY length(t.term), t.term LIMIT %(most)s)
    UNION
    (SELECT t.term FROM recall_terms t
     WHERE t.thread_id = %(thread)s AND t.term %% q.term AND similarity(t.term, q.term) > 0.45
     ORDER BY similarity(t.term, q.term) DESC, t.term LIMIT %(most)s)) h
"""

# What had been removed on another branch before belongs to the other one by its row.
_REMOVED_BY = """(a.compaction_id = ANY(%(compactions)s::uuid[]) OR EXISTS (
    SELECT 1 FROM compactions c
    WHERE c.thread_id = a.thread_id AND c.compaction_id = ANY(%(compactions)s::uuid[])
      AND a.message_id = ANY(c.removed_ids) AND a.digest = ANY(c.removed_digests)))"""
