"""Pins: messages of a thread that no compaction removes (rule C4)."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from psycopg import AsyncConnection
from psycopg_pool import AsyncConnectionPool

from app.errors import MessagePinned


@dataclass(frozen=True, slots=True)
class Pin:
    """A pinned message. It may have left the thread's state by now, which makes the pin moot until it is back."""

    message_id: str
    created_at: datetime


@dataclass(frozen=True, slots=True)
class Claim:
    """What stands after a message was asked to be pinned. ``pinned`` are the ids of all pinned messages in the order
    in which they were pinned; ``added`` says that it was not pinned before; ``leaving`` that a compaction which began
    before is just removing it; ``archived`` that one has removed a message of this id at some time."""

    pinned: tuple[str, ...]
    added: bool
    leaving: bool
    archived: bool


class PinStore:
    """The table ``pins``. Pins belong to the thread and not to a state of it: they hold on every branch."""

    def __init__(self, pool: AsyncConnectionPool[Any]) -> None:
        self._pool = pool

    async def ids(self, thread_id: str) -> frozenset[str]:
        """Ids of the pinned messages of a thread."""
        return frozenset(pin.message_id for pin in await self.list(thread_id))

    async def list(self, thread_id: str) -> list[Pin]:
        """Oldest first."""
        async with self._pool.connection() as conn:
            cursor = await conn.execute(
                "SELECT message_id, created_at FROM pins WHERE thread_id = %s ORDER BY position", (thread_id,)
            )
            return [Pin(**row) for row in await cursor.fetchall()]

    async def claim(self, thread_id: str, message_id: str) -> Claim | None:
        """Pin a message, whatever it is and costs. None when there is no such thread.

        The thread's row is locked, which the record of a compaction that begins waits for: either that compaction
        sees the pin, or ``leaving`` says that it began before.
        """
        place = {"thread": thread_id, "message": message_id}
        async with self._pool.connection() as conn, conn.transaction():
            locked = await conn.execute(
                "SELECT 1 FROM threads WHERE thread_id = %s AND deleted_at IS NULL FOR UPDATE", (thread_id,)
            )
            if await locked.fetchone() is None:
                return None
            added = await conn.execute(_ADD, place)
            row = await (await conn.execute(_CLAIM, place)).fetchone()
            if row is None:
                return None
            return Claim(tuple(row["pinned"]), added.rowcount > 0, row["leaving"], row["archived"])

    async def remove(self, thread_id: str, message_id: str) -> None:
        """Unpin a message, pinned or not."""
        async with self._pool.connection() as conn:
            await conn.execute(
                "DELETE FROM pins WHERE thread_id = %s AND message_id = %s", (thread_id, message_id)
            )


async def refuse_pinned(
    conn: AsyncConnection[Any], thread_id: str, message_ids: Collection[str | None]
) -> None:
    """Raises MessagePinned when one of the messages is pinned. To be called in the transaction that begins their
    removal, behind the insert of its record: that waits for pins which are just being set."""
    # Pins are few and removed messages many.
    cursor = await conn.execute(_PINNED, (thread_id,))
    for row in await cursor.fetchall():
        if row["message_id"] in message_ids:
            raise MessagePinned(
                f"Message {row['message_id']!r} is pinned and would be removed; nothing was changed"
            )


_PINNED = "SELECT message_id FROM pins WHERE thread_id = %s ORDER BY position"
_ADD = "INSERT INTO pins (thread_id, message_id) VALUES (%(thread)s, %(message)s) ON CONFLICT DO NOTHING"
_CLAIM = """
SELECT array_agg(p.message_id ORDER BY p.position) AS pinned,
    EXISTS (SELECT 1 FROM compactions c
            WHERE c.thread_id = %(thread)s AND c.checkpoint_ns = '' AND c.status = 'committing'
              AND %(message)s = ANY(c.removed_ids)) AS leaving,
    EXISTS (SELECT 1 FROM compactions c
            WHERE c.thread_id = %(thread)s AND c.checkpoint_ns = '' AND %(message)s = ANY(c.removed_ids)) AS archived
FROM pins p WHERE p.thread_id = %(thread)s
"""
