"""What one installation has one of, whatever number of processes it runs in."""

from __future__ import annotations

from typing import Any

from psycopg_pool import AsyncConnectionPool

from app.errors import DatabaseError


async def redaction_key(pool: AsyncConnectionPool[Any]) -> bytes:
    """The key of the placeholders that secrets are replaced by. Raises DatabaseError when it was deleted."""
    async with pool.connection() as conn:
        cursor = await conn.execute("SELECT value FROM installation_keys WHERE name = 'redaction'")
        row = await cursor.fetchone()
    if row is None:
        raise DatabaseError("The table installation_keys has lost the key 'redaction'")
    return bytes(row["value"])
