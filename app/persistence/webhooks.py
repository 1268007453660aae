"""What is owed to webhooks: written with the end of the run, taken by any process, kept as a record of its fate."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from psycopg_pool import AsyncConnectionPool


@dataclass(frozen=True, slots=True)
class Delivery:
    """One notification that is owed. ``run`` is the run's row at its end, ``values`` the thread's values then as JSON
    (None: it never began, or its state could not be read). ``attempts`` counts the one that is made now."""

    delivery_id: str
    url: str
    run: Mapping[str, Any]
    values: str | None
    attempts: int


class WebhookStore:
    """The ``webhook_deliveries`` table. Times are seconds."""

    def __init__(self, pool: AsyncConnectionPool[Any]) -> None:
        self._pool = pool

    async def take(self, lease_s: float) -> Delivery | None:
        """The one that is due for the longest time. Nobody else gets it for ``lease_s``; after that it is due again,
        should who took it have died."""
        async with self._pool.connection() as conn:
            row = await (await conn.execute(_TAKE, {"lease": lease_s})).fetchone()
            return Delivery(**{**row, "delivery_id": str(row["delivery_id"])}) if row else None

    async def next_due(self) -> float | None:
        """Seconds until one is due, None when none is pending."""
        async with self._pool.connection() as conn:
            row = await (await conn.execute(_NEXT_DUE)).fetchone()
            return None if row is None or row["wait"] is None else max(0.0, float(row["wait"]))

    async def delivered(self, delivery: Delivery, status: int) -> None:
        await self._end(delivery, "delivered", status, None)

    async def failed(self, delivery: Delivery, status: int | None, error: str) -> None:
        """It is given up."""
        await self._end(delivery, "failed", status, error)

    async def later(self, delivery: Delivery, delay_s: float, status: int | None, error: str) -> None:
        """Due again in ``delay_s``."""
        async with self._pool.connection() as conn:
            await conn.execute(
                _LATER, {"id": delivery.delivery_id, "delay": delay_s, "code": status, "error": error}
            )

    async def of_run(self, thread_id: str, run_id: str) -> list[Mapping[str, Any]]:
        """The record of a run's deliveries, without what was sent."""
        async with self._pool.connection() as conn:
            cursor = await conn.execute(_OF_RUN, (thread_id, run_id))
            return list(await cursor.fetchall())

    async def prune(self, older_than_s: float) -> None:
        """Remove records of deliveries that ended so long ago."""
        async with self._pool.connection() as conn:
            await conn.execute(_PRUNE, (older_than_s,))

    async def _end(self, delivery: Delivery, status: str, code: int | None, error: str | None) -> None:
        async with self._pool.connection() as conn:
            await conn.execute(
                _END, {"id": delivery.delivery_id, "status": status, "code": code, "error": error}
            )


_TAKE = """
UPDATE webhook_deliveries SET attempts = attempts + 1, due_at = now() + make_interval(secs => %(lease)s)
WHERE delivery_id = (
    SELECT delivery_id FROM webhook_deliveries WHERE status = 'pending' AND due_at <= now()
    ORDER BY due_at LIMIT 1 FOR UPDATE SKIP LOCKED)
RETURNING delivery_id, url, run, "values", attempts
"""
_NEXT_DUE = """
SELECT extract(epoch FROM min(due_at) - now()) AS wait FROM webhook_deliveries WHERE status = 'pending'
"""
_LATER = """
UPDATE webhook_deliveries SET due_at = now() + make_interval(secs => %(delay)s), last_status = %(code)s,
    last_error = %(error)s
WHERE delivery_id = %(id)s AND status = 'pending'
"""
# What was sent is not kept beyond its purpose.
_END = """
UPDATE webhook_deliveries SET status = %(status)s, last_status = %(code)s, last_error = %(error)s, "values" = NULL,
    run = '{}', finished_at = now()
WHERE delivery_id = %(id)s AND status = 'pending'
"""
_OF_RUN = """
SELECT delivery_id, run_id, url, status, attempts, last_status, last_error, created_at, finished_at,
    CASE WHEN status = 'pending' THEN due_at END AS due_at
FROM webhook_deliveries WHERE thread_id = %s AND run_id = %s ORDER BY created_at
"""
_PRUNE = "DELETE FROM webhook_deliveries WHERE finished_at < now() - make_interval(secs => %s)"
