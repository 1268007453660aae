"""Threads that were made for one stateless run."""

from __future__ import annotations

from typing import Any

from psycopg_pool import AsyncConnectionPool


class TemporaryThreadStore:
    """Which of them nobody needs any more."""

    def __init__(self, pool: AsyncConnectionPool[Any]) -> None:
        self._pool = pool

    async def over(self, grace_s: float) -> list[tuple[str, str]]:
        """Id and owner of those whose runs have been over for ``grace_s`` seconds, whoever was to remove them."""
        async with self._pool.connection() as conn:
            rows = await (await conn.execute(_OVER, (grace_s,))).fetchall()
            return [(row["thread_id"], row["owner"]) for row in rows]


_OVER = """
SELECT thread_id, owner FROM threads t
WHERE temporary AND NOT EXISTS (
    SELECT 1 FROM runs r WHERE r.thread_id = t.thread_id AND r.status IN ('pending', 'running'))
  AND coalesce((SELECT max(r.finished_at) FROM runs r WHERE r.thread_id = t.thread_id), t.updated_at)
      < now() - make_interval(secs => %s)
"""
