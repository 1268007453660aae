"""What is old, what belongs to whom: the questions behind retention and erasure, and what goes with an owner."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, LiteralString

from psycopg_pool import AsyncConnectionPool

from app.persistence.memory import namespace_of

# At a time; what is left is there the next time.
MOST_AT_ONCE = 1_000


@dataclass(frozen=True, slots=True)
class Owned:
    """A thread and whose it is."""

    thread_id: str
    owner: str


class RetentionStore:
    """Looks at threads of all owners."""

    def __init__(self, pool: AsyncConnectionPool[Any]) -> None:
        self._pool = pool

    async def untouched(self, for_s: float) -> list[Owned]:
        """Idle threads on which nothing has happened for so long, the oldest first, at most ``MOST_AT_ONCE``."""
        return await self._threads(_UNTOUCHED, {"age": for_s, "limit": MOST_AT_ONCE})

    async def prunable(self, for_s: float) -> list[Owned]:
        """The same, only those that may have something to prune."""
        return await self._threads(_PRUNABLE, {"age": for_s, "limit": MOST_AT_ONCE})

    async def of_owner(self, owner: str) -> list[Owned]:
        """All threads of an owner."""
        return await self._threads(
            "SELECT thread_id, owner FROM threads WHERE owner = %(owner)s", {"owner": owner}
        )

    async def owner_of(self, thread_id: str) -> str | None:
        found = await self._threads(
            "SELECT thread_id, owner FROM threads WHERE thread_id = %(thread)s", {"thread": thread_id}
        )
        return found[0].owner if found else None

    async def forget_from_thread(self, owner: str, thread_id: str) -> None:
        """Facts that were noted in a thread and not changed by the person since, and what waits to be read of it."""
        async with self._pool.connection() as conn, conn.transaction():
            await conn.execute(_FORGET_FACTS, {"prefix": ".".join(namespace_of(owner)), "thread": thread_id})
            await conn.execute(_FORGET_JOBS, {"thread": thread_id})

    async def forget_owner(self, owner: str) -> None:
        """Everything of an owner that is not part of a thread: facts, items of the store, assistants, keys, usage."""
        async with self._pool.connection() as conn, conn.transaction():
            await conn.execute(
                "DELETE FROM store WHERE split_part(prefix, '.', 2) = %s", (namespace_of(owner)[1],)
            )
            for statement in _FORGET_OWNER:
                await conn.execute(statement, (owner,))

    async def _threads(self, query: LiteralString, parameters: dict[str, Any]) -> list[Owned]:
        async with self._pool.connection() as conn:
            return [Owned(**row) for row in await (await conn.execute(query, parameters)).fetchall()]


_IDLE = """
t.updated_at < now() - make_interval(secs => %(age)s) AND t.deleted_at IS NULL
AND coalesce(t.reserved_until <= now(), true)
AND NOT EXISTS (SELECT 1 FROM runs r WHERE r.thread_id = t.thread_id AND r.status IN ('pending', 'running'))
"""
_UNTOUCHED: LiteralString = f"""
SELECT t.thread_id, t.owner FROM threads t WHERE {_IDLE} ORDER BY t.updated_at LIMIT %(limit)s
"""
_PRUNABLE: LiteralString = f"""
SELECT t.thread_id, t.owner FROM threads t
WHERE {_IDLE} AND coalesce(t.pruned_at < t.updated_at, true)
  AND EXISTS (SELECT 1 FROM checkpoints c WHERE c.thread_id = t.thread_id)
ORDER BY t.updated_at LIMIT %(limit)s
"""
_FORGET_FACTS = """
DELETE FROM store WHERE prefix = %(prefix)s AND value->>'thread_id' = %(thread)s
  AND NOT coalesce((value->>'edited')::boolean, false)
"""
_FORGET_JOBS = """
DELETE FROM procrastinate_jobs
WHERE queue_name = 'memory' AND status = 'todo' AND args->>'thread_id' = %(thread)s
"""
_FORGET_OWNER = (
    "DELETE FROM assistants WHERE owner = %s",
    "DELETE FROM api_keys WHERE owner = %s",
    "DELETE FROM owner_tokens WHERE owner = %s",
)
