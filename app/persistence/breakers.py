"""The breaker of automatic compaction: failures in a row, and until when the next attempt waits (rule E3)."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Any

from psycopg_pool import AsyncConnectionPool


@dataclass(frozen=True, slots=True)
class Breaker:
    """Failed automatic compactions in a row, and until when the next one waits (rule E3)."""

    failures: int
    waiting: bool
    retry_at: datetime | None
    last_error: str | None


class BreakerStore:
    """The breaker columns of ``threads``; for a conversation inside a run, its records."""

    def __init__(self, pool: AsyncConnectionPool[Any]) -> None:
        self._pool = pool

    async def of_thread(self, thread_id: str) -> Breaker:
        return await self._one(_BREAKER, {"t": thread_id})

    async def within(
        self, thread_id: str, checkpoint_ns: str, threshold: int, pause_s: float, longest_s: float
    ) -> Breaker:
        """The breaker of a conversation inside a run: its own records are the count, the thread's is left alone."""
        return await self._one(
            _BREAKER_WITHIN,
            {"t": thread_id, "ns": checkpoint_ns, "n": threshold, "pause": pause_s, "longest": longest_s},
        )

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

    async def _one(self, query: str, parameters: dict[str, Any]) -> Breaker:
        async with self._pool.connection() as conn:
            row = await (await conn.execute(query, parameters)).fetchone()
            return Breaker(**row) if row else Breaker(0, False, None, None)


_BREAKER = """
SELECT compaction_failures AS failures, coalesce(compaction_retry_at > now(), false) AS waiting,
       compaction_retry_at AS retry_at, compaction_last_error AS last_error
FROM threads WHERE thread_id = %(t)s
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
