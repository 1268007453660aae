"""How much of the database a thread takes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from psycopg_pool import AsyncConnectionPool


@dataclass(frozen=True, slots=True)
class StoredBytes:
    """Bytes of a thread's values as the server stores them, compressed, without indexes and row headers.

    ``checkpoints`` are all states the thread ever had; ``archive`` are the messages that compactions removed, with the
    words they are found by; ``events`` what its runs streamed, ``records`` its runs and compactions."""

    checkpoints: int
    archive: int
    events: int
    records: int


async def stored_bytes(pool: AsyncConnectionPool[Any], thread_id: str) -> StoredBytes:
    """What is stored of a thread now; nothing of one that does not exist."""
    async with pool.connection() as connection:
        row = await (await connection.execute(_SIZES, {"thread": thread_id})).fetchone()
    assert row is not None
    return StoredBytes(**{kind: int(size) for kind, size in row.items()})


_SIZES = """
SELECT (SELECT coalesce(sum(pg_column_size(checkpoint) + pg_column_size(metadata)), 0)
        FROM checkpoints WHERE thread_id = %(thread)s)
     + (SELECT coalesce(sum(pg_column_size(blob)), 0) FROM checkpoint_blobs WHERE thread_id = %(thread)s)
     + (SELECT coalesce(sum(pg_column_size(blob)), 0) FROM checkpoint_writes WHERE thread_id = %(thread)s)
       AS checkpoints,
       (SELECT coalesce(sum(pg_column_size(message) + coalesce(pg_column_size(original), 0)), 0)
        FROM archived_messages WHERE thread_id = %(thread)s)
     + (SELECT coalesce(sum(pg_column_size(messages)), 0) FROM archive_packs WHERE thread_id = %(thread)s)
     + (SELECT coalesce(sum(pg_column_size(words)), 0) FROM recall_words WHERE thread_id = %(thread)s)
     + (SELECT coalesce(sum(pg_column_size(term)), 0) FROM recall_terms WHERE thread_id = %(thread)s)
       AS archive,
       (SELECT coalesce(sum(pg_column_size(e.data)), 0)
        FROM run_events e JOIN runs r USING (run_id) WHERE r.thread_id = %(thread)s) AS events,
       (SELECT coalesce(sum(pg_column_size(c.*)), 0) FROM compactions c WHERE c.thread_id = %(thread)s)
     + (SELECT coalesce(sum(pg_column_size(r.*)), 0) FROM runs r WHERE r.thread_id = %(thread)s) AS records
"""
