"""Packs: what a compaction removed, written down in haste and sorted into the archive later.

A run waits while its compaction archives. So that takes one encoding, the one that checkpoints have, and a few large
values; a row for each message, its JSON, its digest and all that is indexed follow (``unpack``), before anybody reads
of them.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Sequence
from typing import Any

from langchain_core.messages import BaseMessage
from psycopg import AsyncConnection
from psycopg_pool import AsyncConnectionPool

from app.persistence.encoding import Encoded, dump_all, encode, load_all

# Messages of one pack, which is one transaction of the sorting: nobody waits long for it.
_PER_PACK = 500
# A pack of large messages becomes two. Sorting ten megabytes takes a second.
_PACK_BYTES = 10_000_000
# Clients' ids are a quarter as long. The indexes of the archive refuse one of some 2,000 bytes.
_LONGEST_ID = 1000


async def pack(
    conn: AsyncConnection[Any], thread_id: str, compaction_id: str, removed: Sequence[BaseMessage]
) -> None:
    """Write down what the compaction, whose record is there, removes. To be called in the transaction of the record."""
    # While the server writes one pack, the next one is encoded.
    async with conn.pipeline():
        for number, packed in enumerate(_packed(removed, _PER_PACK)):
            if packed is None:
                break
            await conn.execute(_PACK, (thread_id, compaction_id, number, packed))
        else:
            return
    await conn.execute(_DROP, (thread_id, compaction_id))
    encoded = await asyncio.to_thread(lambda: [(message.id, encode(message)) for message in removed])
    await _sort_in(conn, thread_id, compaction_id, encoded)


def _packed(messages: Sequence[BaseMessage], most: int) -> Iterator[bytes | None]:
    """Packs of at most so many messages, in their order; None instead of one that might not be sorted in later: if
    that fails, then before anything is removed."""
    for start in range(0, len(messages), most):
        part = messages[start : start + most]
        packed = dump_all(part) if all(map(_has_short_id, part)) else None
        if packed is not None and len(packed) > _PACK_BYTES and len(part) > 1:
            yield from _packed(part, (len(part) + 1) // 2)
        else:
            yield packed


def _has_short_id(message: BaseMessage) -> bool:
    return len((message.id or "").encode()) <= _LONGEST_ID


async def unpack(pool: AsyncConnectionPool[Any], thread_id: str) -> None:
    """Sort all packs of a thread into its archive. Whoever reads the archive does this first; any number of processes
    may do it at once, and be killed while they do."""
    async with pool.connection() as conn:
        while row := await (await conn.execute(_OLDEST, (thread_id,))).fetchone():
            async with conn.transaction():
                await _unpack(conn, thread_id, row["compaction_id"])


async def _unpack(conn: AsyncConnection[Any], thread_id: str, compaction_id: str) -> None:
    # In the order in which a deletion of the thread, a copy, and a draft that is applied once more take them.
    await conn.execute(_HOLD_THREAD, (thread_id,))
    await conn.execute(_HOLD_RECORD, (thread_id, compaction_id))
    row = await (await conn.execute(_TAKE, {"thread": thread_id, "id": compaction_id})).fetchone()
    if row is None:
        return
    removed = await asyncio.to_thread(load_all, row["messages"])
    await _sort_in(conn, thread_id, compaction_id, removed)


async def _sort_in(
    conn: AsyncConnection[Any],
    thread_id: str,
    compaction_id: str,
    removed: Sequence[tuple[str | None, Encoded]],
) -> None:
    """Archiving a message again (same id, same content) changes nothing."""
    ids, encoded = [message_id for message_id, _ in removed], [forms for _, forms in removed]
    await conn.execute(
        _ARCHIVE,
        {
            "thread": thread_id,
            "compaction": compaction_id,
            "ids": ids,
            "digests": [item.digest for item in encoded],
            "texts": [item.text for item in encoded],
            "originals": [item.original for item in encoded],
        },
    )


_PACK = """
INSERT INTO archive_packs (thread_id, compaction_id, number, messages) VALUES (%s, %s, %s, %b)
"""
_DROP = "DELETE FROM archive_packs WHERE thread_id = %s AND compaction_id = %s"
_OLDEST = """
SELECT p.compaction_id FROM archive_packs p JOIN compactions c USING (thread_id, compaction_id)
WHERE p.thread_id = %s ORDER BY c.position LIMIT 1
"""
_HOLD_THREAD = "SELECT 1 FROM threads WHERE thread_id = %s FOR KEY SHARE"
_HOLD_RECORD = "SELECT 1 FROM compactions WHERE thread_id = %s AND compaction_id = %s FOR NO KEY UPDATE"
_TAKE = """
DELETE FROM archive_packs p USING (
    SELECT min(number) AS number FROM archive_packs WHERE thread_id = %(thread)s AND compaction_id = %(id)s) first
WHERE p.thread_id = %(thread)s AND p.compaction_id = %(id)s AND p.number = first.number
RETURNING p.messages
"""

# What an earlier compaction archived and did not commit, or that was taken back, belongs to the one that does.
# Texts go as they are (%b): quoted as parts of an array literal they take a hundred times as long.
_ARCHIVE = """
WITH record AS (
    UPDATE compactions SET removed_digests = removed_digests || %(digests)b::text[]
    WHERE thread_id = %(thread)s AND compaction_id = %(compaction)s
    RETURNING thread_id, compaction_id, checkpoint_ns, run_id
)
INSERT INTO archived_messages AS a
    (thread_id, checkpoint_ns, message_id, digest, compaction_id, position, run_id, message, original)
SELECT r.thread_id, r.checkpoint_ns, m.id, m.digest, r.compaction_id, last.position + m.number, r.run_id, m.message,
    m.original
FROM unnest(%(ids)b::text[], %(digests)b::text[], %(texts)b::text[], %(originals)b::bytea[])
    WITH ORDINALITY AS m(id, digest, message, original, number), record r, LATERAL (
        SELECT coalesce(max(position), -1) AS position FROM archived_messages
        WHERE thread_id = r.thread_id AND checkpoint_ns = r.checkpoint_ns) last
ON CONFLICT (thread_id, checkpoint_ns, message_id, digest) DO UPDATE
    SET compaction_id = EXCLUDED.compaction_id, run_id = EXCLUDED.run_id,
        original = coalesce(a.original, EXCLUDED.original)
    WHERE NOT EXISTS (
        SELECT 1 FROM compactions c
        WHERE c.thread_id = a.thread_id AND c.compaction_id = a.compaction_id AND c.status = 'committed')
"""
