"""Whether the database answers, asked so that a database that does not cannot hold whoever asks."""

from __future__ import annotations

import asyncio
from typing import Any

import psycopg
from psycopg_pool import AsyncConnectionPool, PoolTimeout

_SECONDS = 2.0


class DatabaseProbe:
    """Asks one question at a time, however many want to know."""

    def __init__(self, pool: AsyncConnectionPool[Any]) -> None:
        self._pool = pool
        self._asking: asyncio.Task[str | None] | None = None

    async def problem(self) -> str | None:
        """What is wrong with the database, as half a sentence, or None. Answers within seconds."""
        if self._asking is None or self._asking.done():
            self._asking = asyncio.create_task(self._ask(), name="database probe")
        # A question that is cut short would wait for the server just as long to take it back.
        done, _ = await asyncio.wait({self._asking}, timeout=_SECONDS)
        return self._asking.result() if done else f"the database does not answer within {_SECONDS:g} s"

    async def _ask(self) -> str | None:
        try:
            async with self._pool.connection(timeout=_SECONDS) as conn:
                await conn.execute("SELECT 1 FROM threads LIMIT 1")
        except (psycopg.Error, PoolTimeout) as error:
            return f"the database does not answer ({type(error).__name__})"
        return None
