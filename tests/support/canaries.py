"""Looks for a text in everything that is kept: all columns of all tables, and all files."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from psycopg import AsyncConnection, sql
from psycopg.rows import tuple_row


def forms(text: str) -> list[str]:
    """How the text may stand in a row: as it is, escaped in JSON, and as bytes, which are shown in hex."""
    escaped = text.encode("ascii", "backslashreplace").decode()
    return [text, escaped, text.encode().hex(), text.lower()]


async def tables_with(connection: AsyncConnection[Any], text: str) -> set[str]:
    """Names of the tables of which some row holds the text."""
    cursor = connection.cursor(row_factory=tuple_row)
    await cursor.execute(
        """SELECT table_name FROM information_schema.tables
           WHERE table_schema NOT IN ('pg_catalog', 'information_schema') AND table_type = 'BASE TABLE'"""
    )
    found = set()
    for (table,) in await cursor.fetchall():
        query = sql.SQL(
            "SELECT 1 FROM {} AS t WHERE EXISTS (SELECT 1 FROM unnest(%s::text[]) f WHERE position(f IN t::text) > 0)"
        )
        await cursor.execute(query.format(sql.Identifier(table)), (forms(text),))
        if await cursor.fetchone():
            found.add(table)
    return found


def files_with(folder: Path, text: str) -> set[Path]:
    """Files below the folder whose name or content holds the text."""
    return {
        path
        for path in folder.rglob("*")
        if text in path.name or (path.is_file() and text.encode() in path.read_bytes())
    }
