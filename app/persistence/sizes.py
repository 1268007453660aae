"""How much of the database a thread takes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from psycopg_pool import AsyncConnectionPool


@dataclass(frozen=True, slots=True)
class StoredBytes:
    """Bytes of a thread's values as the server stores them, compressed, without indexes and row headers.

    ``checkpoints`` are all states the thread ever had; ``archive`` are the messages that compactions removed."""

    checkpoints: int
    archive: int


async def stored_bytes(pool: AsyncConnectionPool[Any], thread_id: str) -> StoredBytes:
    """What is stored of a thread now; nothing of one that does not exist."""
    async with pool.connection() as connection:
        cursor = await connection.execute(_SIZES, {"thread": thread_id})
        row = await cursor.fetchone()
    assert row is not None
    return StoredBytes(int(row["checkpoints"]), int(row["archive"]))


_SIZES = """
SELECT (SELECT coalesce(sum(pg_column_size(checkpoint) + pg_column_size(metadata)), 0)
        FROM checkpoints WHERE thread_id = %(thread)s)
     + (SELECT coalesce(sum(pg_column_size(blob)), 0) FROM checkpoint_blobs WHERE thread_id = %(thread)s)
     + (SELECT coalesce(sum(pg_column_size(blob)), 0) FROM checkpoint_writes WHERE thread_id = %(thread)s)
       AS checkpoints,
       (SELECT coalesce(sum(pg_column_size(message) + coalesce(pg_column_size(original), 0)), 0)
        FROM archived_messages WHERE thread_id = %(thread)s)
       AS archive
"""
