"""What is known of people: facts in LangGraph's store by owner, and which messages were read for them."""

from __future__ import annotations

import hashlib
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any
from urllib.parse import quote

from langchain_core.messages import BaseMessage
from langgraph.store.base import Item, Op, PutOp
from langgraph.store.postgres.aio import AsyncPostgresStore
from psycopg_pool import AsyncConnectionPool

from app.compaction.content import text_of
from app.compaction.roles import USER_SUFFIX

ROOT = "memory"
# Far above ``memory.max_facts``, which whoever writes sees to.
_MOST = 10_000


@dataclass(frozen=True, slots=True)
class Fact:
    """One thing that is known. ``thread_id`` is where it was said, which may be gone; None: the person wrote it down.
    ``edited``: the person did, last."""

    key: str
    text: str
    thread_id: str | None
    edited: bool
    created_at: datetime
    updated_at: datetime


@dataclass(frozen=True, slots=True)
class Note:
    """A fact to be written under ``key``."""

    key: str
    text: str
    thread_id: str | None
    edited: bool = False


class MemoryStore:
    """Facts of one owner never meet those of another: each has a namespace of its own below ``memory``."""

    def __init__(self, store: AsyncPostgresStore, pool: AsyncConnectionPool[Any]) -> None:
        self._store = store
        self._pool = pool

    async def facts(self, owner: str) -> list[Fact]:
        """The newest first."""
        items = await self._store.asearch(namespace_of(owner), limit=_MOST)
        return sorted(map(_fact, items), key=lambda fact: (fact.updated_at, fact.key), reverse=True)

    async def get(self, owner: str, key: str) -> Fact | None:
        item = await self._store.aget(namespace_of(owner), key)
        return _fact(item) if item else None

    async def write(self, owner: str, notes: Sequence[Note], forget: Collection[str] = ()) -> None:
        """In one go: write ``notes`` and forget the keys."""
        namespace = namespace_of(owner)
        values: list[Op] = [PutOp(namespace, note.key, _value(note)) for note in notes]
        await self._store.abatch([*values, *(PutOp(namespace, key, None) for key in forget)])

    async def unread(self, thread_id: str, messages: Sequence[BaseMessage]) -> list[BaseMessage]:
        """Those of the messages that were not read yet, in their order."""
        digests = [_digest(message) for message in messages]
        async with self._pool.connection() as conn:
            cursor = await conn.execute(
                "SELECT digest FROM memory_read WHERE thread_id = %s AND digest = ANY(%s)",
                (thread_id, digests),
            )
            read = {row["digest"] for row in await cursor.fetchall()}
        return [message for message, digest in zip(messages, digests, strict=True) if digest not in read]

    async def mark_read(self, thread_id: str, messages: Sequence[BaseMessage]) -> None:
        """Nothing is marked of a thread that is gone."""
        async with self._pool.connection() as conn:
            await conn.execute(
                """INSERT INTO memory_read (thread_id, digest)
                   SELECT t.thread_id, d FROM threads t, unnest(%s::text[]) d WHERE t.thread_id = %s
                   ON CONFLICT DO NOTHING""",
                ([_digest(message) for message in messages], thread_id),
            )


def namespace_of(owner: str) -> tuple[str, str]:
    """The store refuses labels that are empty or have a period in them."""
    return ROOT, f"of-{quote(owner, safe='').replace('.', '%2E')}"


def _value(note: Note) -> Mapping[str, Any]:
    return {"text": note.text, "thread_id": note.thread_id, "edited": note.edited}


def _fact(item: Item) -> Fact:
    value = item.value
    return Fact(
        key=item.key,
        text=str(value.get("text", "")),
        thread_id=value.get("thread_id"),
        edited=bool(value.get("edited")),
        created_at=item.created_at,
        updated_at=item.updated_at,
    )


def _digest(message: BaseMessage) -> str:
    """A question keeps its digest when it moves behind its reminder."""
    said = f"{(message.id or '').removesuffix(USER_SUFFIX)}\0{text_of(message)}"
    return hashlib.sha256(said.encode("utf-8", "surrogatepass")).hexdigest()[:32]
