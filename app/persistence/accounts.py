"""Keys of people, and what owners have used: the tables ``api_keys`` and ``owner_tokens``."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from psycopg import AsyncConnection
from psycopg_pool import AsyncConnectionPool


@dataclass(frozen=True, slots=True)
class KeyRecord:
    """A key as it may be shown: the key itself is not among it, nor its digest."""

    key_id: str
    owner: str
    admin: bool
    created_at: datetime
    expires_at: datetime | None
    revoked_at: datetime | None
    last_used_at: datetime | None


@dataclass(frozen=True, slots=True)
class ValidKey:
    """A key that is neither expired nor revoked. ``digest`` is the SHA-256 of the whole key."""

    digest: bytes
    owner: str
    admin: bool


class AccountStore:
    """The only SQL about keys and the use of owners."""

    def __init__(self, pool: AsyncConnectionPool[Any]) -> None:
        self._pool = pool

    async def add(
        self, key_id: str, digest: bytes, owner: str, admin: bool, expires_at: datetime | None
    ) -> KeyRecord:
        async with self._pool.connection() as conn:
            cursor = await conn.execute(
                f"""INSERT INTO api_keys (key_id, digest, owner, admin, expires_at) VALUES (%s, %s, %s, %s, %s)
                    RETURNING {_SHOWN}""",
                (key_id, digest, owner, admin, expires_at),
            )
            row = await cursor.fetchone()
        assert row is not None
        return KeyRecord(**row)

    async def valid(self, key_id: str) -> ValidKey | None:
        """The key of this id, unless it has expired or was revoked; and note, once a minute, that it is in use."""
        async with self._pool.connection() as conn:
            row = await (await conn.execute(_VALID, (key_id,))).fetchone()
            if row is None:
                return None
            if row["unseen"]:
                await conn.execute("UPDATE api_keys SET last_used_at = now() WHERE key_id = %s", (key_id,))
        return ValidKey(bytes(row["digest"]), row["owner"], row["admin"])

    async def listed(self, owner: str | None = None) -> list[KeyRecord]:
        """The newest first; of one owner, or of all."""
        async with self._pool.connection() as conn:
            cursor = await conn.execute(
                f"""SELECT {_SHOWN} FROM api_keys WHERE %(owner)s::text IS NULL OR owner = %(owner)s
                    ORDER BY created_at DESC, key_id""",
                {"owner": owner},
            )
            return [KeyRecord(**row) for row in await cursor.fetchall()]

    async def revoke(self, key_id: str) -> KeyRecord | None:
        """The revoked key, also when it had been before. None when there is no such key."""
        async with self._pool.connection() as conn:
            cursor = await conn.execute(
                f"""UPDATE api_keys SET revoked_at = coalesce(revoked_at, now()) WHERE key_id = %s
                    RETURNING {_SHOWN}""",
                (key_id,),
            )
            row = await cursor.fetchone()
        return KeyRecord(**row) if row else None

    async def owners(self) -> list[Mapping[str, Any]]:
        """Everybody who has a key or a thread, by name, with the number of each."""
        async with self._pool.connection() as conn:
            return [dict(row) for row in await (await conn.execute(_OWNERS)).fetchall()]

    async def use(self, owner: str, tokens: int) -> None:
        """Add to what the owner has used today, by the day of UTC."""
        async with self._pool.connection() as conn:
            await conn.execute(
                f"""INSERT INTO owner_tokens AS used (owner, day, tokens) VALUES (%s, {_TODAY}, %s)
                    ON CONFLICT (owner, day) DO UPDATE SET tokens = used.tokens + excluded.tokens""",
                (owner, tokens),
            )

    async def used_today(self, owner: str) -> int:
        async with self._pool.connection() as conn:
            cursor = await conn.execute(
                f"SELECT tokens FROM owner_tokens WHERE owner = %s AND day = {_TODAY}", (owner,)
            )
            row = await cursor.fetchone()
        return int(row["tokens"]) if row else 0

    async def used_by_run(self, run_id: str) -> int:
        """What the model calls and compactions of a run used, as their providers reported it."""
        async with self._pool.connection() as conn:
            row = await (await conn.execute(_USED_BY_RUN, {"run": run_id})).fetchone()
        return int(row["tokens"]) if row else 0

    async def active_runs(self, conn: AsyncConnection[Any], owner: str, except_thread: str | None) -> int:
        """Runs of the owner that wait or are at work. Until the transaction of ``conn`` ends, nobody else counts them:
        of two runs that are admitted at once, one sees the other."""
        await conn.execute("SELECT pg_advisory_xact_lock(hashtextextended('runs of ' || %s, 0))", (owner,))
        cursor = await conn.execute(_ACTIVE_RUNS, (owner, except_thread))
        row = await cursor.fetchone()
        return int(row["total"]) if row else 0

    async def manual_compactions(self, owner: str, thread_id: str, seconds: float) -> list[datetime]:
        """When people had the thread compacted within the last ``seconds``, the first of it first."""
        async with self._pool.connection() as conn:
            cursor = await conn.execute(_MANUAL, (thread_id, owner, seconds))
            return [row["created_at"] for row in await cursor.fetchall()]


_SHOWN = "key_id, owner, admin, created_at, expires_at, revoked_at, last_used_at"
_TODAY = "(now() AT TIME ZONE 'UTC')::date"
_VALID = """
SELECT digest, owner, admin, last_used_at IS NULL OR last_used_at < now() - interval '1 minute' AS unseen
FROM api_keys WHERE key_id = %s AND revoked_at IS NULL AND (expires_at IS NULL OR expires_at > now())
"""
_OWNERS = """
SELECT owner, coalesce(k.keys, 0) AS keys, coalesce(t.threads, 0) AS threads
FROM (SELECT owner, count(*) AS keys FROM api_keys WHERE revoked_at IS NULL GROUP BY owner) k
FULL JOIN (SELECT owner, count(*) AS threads FROM threads WHERE deleted_at IS NULL GROUP BY owner) t USING (owner)
ORDER BY owner
"""
_USED_BY_RUN = """
SELECT coalesce(sum(tokens), 0) AS tokens FROM (
    SELECT total_tokens AS tokens FROM token_usage WHERE run_id = %(run)s
    UNION ALL
    SELECT (usage->>'total_tokens')::bigint FROM compactions WHERE run_id = %(run)s
) AS calls
"""
_ACTIVE_RUNS = """
SELECT count(*) AS total FROM runs r JOIN threads t USING (thread_id)
WHERE r.status IN ('pending', 'running') AND t.owner = %s AND t.thread_id IS DISTINCT FROM %s
"""
_MANUAL = """
SELECT c.created_at FROM compactions c JOIN threads t USING (thread_id)
WHERE c.thread_id = %s AND t.owner = %s AND c.kind = 'manual' AND c.created_at > now() - make_interval(secs => %s)
ORDER BY c.created_at
"""
