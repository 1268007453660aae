"""Assistants that clients create: rows, with every version they had. A version never changes once it is written."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any, Literal

from psycopg import AsyncConnection
from psycopg.types.json import Jsonb
from psycopg_pool import AsyncConnectionPool

from app.serialization import dumps_jsonb

SortBy = Literal["assistant_id", "graph_id", "name", "created_at", "updated_at"]
SortOrder = Literal["asc", "desc"]

ALWAYS = datetime(1970, 1, 1, tzinfo=UTC)
"""When the assistants of the configuration were created: at no time that means anything."""


@dataclass(frozen=True, slots=True)
class Draft:
    """What a client says of an assistant: which graph, and what each of its runs begins with."""

    graph_id: str
    name: str
    description: str | None = None
    config: Mapping[str, Any] = field(default_factory=dict)
    context: Mapping[str, Any] = field(default_factory=dict)
    metadata: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Assistant:
    """One version of an assistant. ``updated_at`` is the assistant's, whatever the version."""

    assistant_id: str
    graph_id: str
    name: str
    description: str | None
    config: Mapping[str, Any]
    context: Mapping[str, Any]
    metadata: Mapping[str, Any]
    version: int
    created_at: datetime
    updated_at: datetime


@dataclass(frozen=True, slots=True)
class AssistantFilter:
    """Which assistants: all given conditions hold. ``name`` is a part of the name in any case, ``metadata`` is
    contained in the assistant's."""

    owner: str
    graph_id: str | None = None
    name: str | None = None
    metadata: Mapping[str, Any] = field(default_factory=dict)


class AssistantStore:
    """The tables ``assistants`` and ``assistant_versions``. Assistants of others do not exist for a caller."""

    def __init__(self, pool: AsyncConnectionPool[Any]) -> None:
        self._pool = pool

    async def create(self, assistant_id: str, owner: str, draft: Draft) -> bool:
        """False when the id is taken, by whomever."""
        async with self._pool.connection() as conn, conn.transaction():
            cursor = await conn.execute(
                "INSERT INTO assistants (assistant_id, owner, version) VALUES (%s, %s, 1) ON CONFLICT DO NOTHING",
                (assistant_id, owner),
            )
            if not cursor.rowcount:
                return False
            await _insert_version(conn, assistant_id, 1, draft)
            return True

    async def get(self, assistant_id: str, owner: str) -> Assistant | None:
        async with self._pool.connection() as conn:
            cursor = await conn.execute(f"{_LATEST} AND a.assistant_id = %s", (owner, assistant_id))
            row = await cursor.fetchone()
            return Assistant(**row) if row else None

    async def add_version(self, assistant_id: str, owner: str, draft: Draft) -> bool:
        """Write another version and make it the one that counts. False when there is no such assistant."""
        async with self._pool.connection() as conn, conn.transaction():
            if not await _lock(conn, assistant_id, owner):
                return False
            cursor = await conn.execute(
                "SELECT max(version) + 1 AS next FROM assistant_versions WHERE assistant_id = %s",
                (assistant_id,),
            )
            row = await cursor.fetchone()
            assert row is not None
            await _insert_version(conn, assistant_id, row["next"], draft)
            await conn.execute(_CHOOSE, (row["next"], assistant_id))
            return True

    async def choose(self, assistant_id: str, owner: str, version: int) -> bool:
        """Make an earlier or later version the one that counts. False when there is none of that number."""
        async with self._pool.connection() as conn, conn.transaction():
            if not await _lock(conn, assistant_id, owner):
                return False
            cursor = await conn.execute(
                "SELECT 1 FROM assistant_versions WHERE assistant_id = %s AND version = %s",
                (assistant_id, version),
            )
            if await cursor.fetchone() is None:
                return False
            await conn.execute(_CHOOSE, (version, assistant_id))
            return True

    async def delete(self, assistant_id: str, owner: str) -> bool:
        async with self._pool.connection() as conn:
            cursor = await conn.execute(
                "DELETE FROM assistants WHERE assistant_id = %s AND owner = %s", (assistant_id, owner)
            )
            return bool(cursor.rowcount)

    async def versions(
        self, assistant_id: str, owner: str, metadata: Mapping[str, Any], limit: int, offset: int
    ) -> list[Assistant]:
        """The newest first."""
        async with self._pool.connection() as conn:
            cursor = await conn.execute(
                f"""SELECT {_COLUMNS} FROM assistants a JOIN assistant_versions v USING (assistant_id)
                    WHERE a.owner = %s AND a.assistant_id = %s AND v.metadata @> %s
                    ORDER BY v.version DESC LIMIT %s OFFSET %s""",
                (owner, assistant_id, _jsonb(metadata), limit, offset),
            )
            return [Assistant(**row) for row in await cursor.fetchall()]

    async def search(
        self,
        wanted: AssistantFilter,
        always: Sequence[Assistant],
        *,
        limit: int,
        offset: int,
        sort_by: SortBy,
        sort_order: SortOrder,
    ) -> list[Assistant]:
        """A page of the owner's assistants and of those that are ``always`` there."""
        # Both words come from a Literal; the place and the id make pages stable.
        order = f"{sort_by} {sort_order}, place, assistant_id"
        async with self._pool.connection() as conn:
            cursor = await conn.execute(
                f"{_ALL} SELECT {_FIELDS} FROM everything WHERE {_MATCHES} ORDER BY {order} "
                "LIMIT %(limit)s OFFSET %(offset)s",
                {**_parameters(wanted, always), "limit": limit, "offset": offset},
            )
            return [Assistant(**row) for row in await cursor.fetchall()]

    async def count(self, wanted: AssistantFilter, always: Sequence[Assistant]) -> int:
        async with self._pool.connection() as conn:
            cursor = await conn.execute(
                f"{_ALL} SELECT count(*) AS total FROM everything WHERE {_MATCHES}",
                _parameters(wanted, always),
            )
            row = await cursor.fetchone()
            return int(row["total"]) if row else 0


async def _lock(conn: AsyncConnection[Any], assistant_id: str, owner: str) -> bool:
    cursor = await conn.execute(
        "SELECT 1 FROM assistants WHERE assistant_id = %s AND owner = %s FOR UPDATE", (assistant_id, owner)
    )
    return await cursor.fetchone() is not None


async def _insert_version(conn: AsyncConnection[Any], assistant_id: str, version: int, draft: Draft) -> None:
    await conn.execute(
        """INSERT INTO assistant_versions
               (assistant_id, version, graph_id, name, description, config, context, metadata)
           VALUES (%s, %s, %s, %s, %s, %s, %s, %s)""",
        (
            assistant_id,
            version,
            draft.graph_id,
            draft.name,
            draft.description,
            _jsonb(draft.config),
            _jsonb(draft.context),
            _jsonb(draft.metadata),
        ),
    )


def _parameters(wanted: AssistantFilter, always: Sequence[Assistant]) -> dict[str, Any]:
    listed = [
        {**{name: getattr(assistant, name) for name in Assistant.__dataclass_fields__}, "place": place}
        for place, assistant in enumerate(always)
    ]
    return {
        "owner": wanted.owner,
        "always": _jsonb(listed),
        "graph_id": wanted.graph_id,
        "name": wanted.name,
        "metadata": _jsonb(wanted.metadata),
    }


def _jsonb(value: Any) -> Jsonb:
    return Jsonb(value, dumps=dumps_jsonb)


_FIELDS = ", ".join(Assistant.__dataclass_fields__)
_COLUMNS = """a.assistant_id::text AS assistant_id, v.graph_id, v.name, v.description, v.config, v.context, v.metadata,
    v.version, v.created_at, a.updated_at"""
_LATEST = """
SELECT a.assistant_id::text AS assistant_id, v.graph_id, v.name, v.description, v.config, v.context, v.metadata,
    v.version, a.created_at, a.updated_at
FROM assistants a JOIN assistant_versions v ON v.assistant_id = a.assistant_id AND v.version = a.version
WHERE a.owner = %s
"""
_CHOOSE = "UPDATE assistants SET version = %s, updated_at = now() WHERE assistant_id = %s"
_ALL = f"""
WITH everything AS (
    SELECT mine.*, 0 AS place FROM ({_LATEST.replace("%s", "%(owner)s")}) AS mine
    UNION ALL
    SELECT * FROM jsonb_to_recordset(%(always)s) AS always(
        assistant_id text, graph_id text, name text, description text, config jsonb, context jsonb, metadata jsonb,
        version integer, created_at timestamptz, updated_at timestamptz, place integer)
)
"""
_MATCHES = """
(%(graph_id)s::text IS NULL OR graph_id = %(graph_id)s)
AND (%(name)s::text IS NULL OR strpos(lower(name), lower(%(name)s)) > 0)
AND metadata @> %(metadata)s
"""
