"""Copying a thread: every row that makes up what it knows, in one transaction."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from psycopg import AsyncConnection, sql
from psycopg_pool import AsyncConnectionPool


@dataclass(frozen=True, slots=True)
class _Table:
    """``order``: what gives new rows numbers of their own in the order of the old ones."""

    name: str
    order: str | None = None


# In this order: what refers to others comes after them.
COPIED = (
    _Table("checkpoints"),
    _Table("checkpoint_blobs"),
    _Table("checkpoint_writes"),
    _Table("compactions", "position"),
    _Table("archived_messages"),
    _Table("archive_packs"),
    _Table("compaction_drafts"),
    _Table("pins", "position"),
    _Table("recall_words"),
    _Table("recall_terms"),
    # What is archived is put here by a trigger, also what is indexed already.
    _Table("recall_pending"),
    _Table("memory_read"),
)
# What happened on a thread, not what it knows: a copy has not run, has used no tokens and owes nobody a call.
NOT_COPIED = frozenset({"threads", "runs", "token_usage", "thread_state_updates", "webhook_deliveries"})
# Of the thread's own row, what belongs to the one thread alone.
_OWN = frozenset(
    {
        "thread_id",
        "created_at",
        "updated_at",
        "deleted_at",
        "reserved_by",
        "reserved_until",
        "status",
        "error",
        "temporary",
        "pruned_at",
        "compaction_failures",
        "compaction_retry_at",
        "compaction_last_error",
    }
)


class CopyStore:
    """Copies begin as threads that are being deleted, so that nobody sees half of one and a crash leaves none."""

    def __init__(self, pool: AsyncConnectionPool[Any]) -> None:
        self._pool = pool

    async def begin(self, copy_id: str, owner: str, holder: str, ttl_s: float) -> None:
        """Reserve the new thread for ``holder`` (a uuid) and ``ttl_s`` seconds."""
        async with self._pool.connection() as conn:
            await conn.execute(
                """INSERT INTO threads (thread_id, owner, deleted_at, reserved_by, reserved_until)
                   VALUES (%s, %s, now(), %s, now() + make_interval(secs => %s))""",
                (copy_id, owner, holder, ttl_s),
            )

    async def finish(self, source_id: str, source_holder: str, copy_id: str, copy_holder: str) -> bool:
        """Copy the rows and make the copy a thread like any other. False, and nothing is copied, when one of the two
        is not held any more."""
        async with self._pool.connection() as conn, conn.transaction():
            held = await conn.execute(_HELD, ([source_id, copy_id], [source_holder, copy_holder]))
            if len(await held.fetchall()) < 2:
                return False
            for table in COPIED:
                if table.name == "recall_pending":
                    await conn.execute("DELETE FROM recall_pending WHERE thread_id = %s", (copy_id,))
                await _copy(conn, table, source_id, copy_id)
            await _adopt(conn, source_id, copy_id)
            return True


async def _copy(conn: AsyncConnection[Any], table: _Table, source_id: str, copy_id: str) -> None:
    names = await _columns(conn, table.name)
    columns = sql.SQL(", ").join(map(sql.Identifier, names))
    order = sql.SQL(" ORDER BY {}").format(sql.Identifier(table.order)) if table.order else sql.SQL("")
    statement = sql.SQL(
        "INSERT INTO {table} (thread_id, {columns}) SELECT %s, {columns} FROM {table} WHERE thread_id = %s{order}"
    )
    await conn.execute(
        statement.format(table=sql.Identifier(table.name), columns=columns, order=order), (copy_id, source_id)
    )


async def _adopt(conn: AsyncConnection[Any], source_id: str, copy_id: str) -> None:
    names = [name for name in await _columns(conn, "threads") if name not in _OWN]
    assignments = sql.SQL(", ").join(sql.SQL("{0} = s.{0}").format(sql.Identifier(name)) for name in names)
    await conn.execute(sql.SQL(_ADOPT).format(assignments=assignments), (copy_id, source_id))


async def _columns(conn: AsyncConnection[Any], table: str) -> list[str]:
    """Those that a row is given: not the thread, not what the database numbers or computes."""
    cursor = await conn.execute(_COLUMNS, (table,))
    return [row["attname"] for row in await cursor.fetchall()]


# Runs and writers take the row before they begin, so none begins before the copy is complete.
_HELD = """
SELECT t.thread_id FROM threads t
JOIN unnest(%s::text[], %s::uuid[]) AS h(thread_id, holder)
  ON h.thread_id = t.thread_id AND h.holder = t.reserved_by
WHERE t.reserved_until > now() ORDER BY t.thread_id FOR UPDATE OF t
"""
_COLUMNS = """
SELECT attname FROM pg_attribute
WHERE attrelid = %s::regclass AND attnum > 0 AND NOT attisdropped AND attidentity = '' AND attgenerated = ''
  AND attname <> 'thread_id' ORDER BY attnum
"""
# A question that is open stays open in the copy; how the last run ended is a matter of the thread that ran it.
_ADOPT = """
UPDATE threads t SET {assignments}, deleted_at = NULL, reserved_by = NULL, reserved_until = NULL,
    status = CASE s.status WHEN 'interrupted' THEN 'interrupted' ELSE 'idle' END
FROM threads s WHERE t.thread_id = %s AND s.thread_id = %s
"""
