"""Records from before undos and redos could be taken back say the truth after the migration."""

from __future__ import annotations

import asyncio
from uuid import uuid4

import psycopg

from app.persistence.database import open_database
from app.persistence.schema import migrate
from tests.persistence.test_recall_backfill import upgrade
from tests.support.postgres import empty_database

_RECORD = """
INSERT INTO compactions (compaction_id, thread_id, kind, status, target_id) VALUES (%s, %s, %s, %s, %s)
"""


async def test_what_was_taken_back_before_is_undone(database_url: str) -> None:
    thread_id, out, back, often, again = str(uuid4()), uuid4(), uuid4(), uuid4(), uuid4()
    told = [
        (out, "manual", "committed", None, "committed"),
        (uuid4(), "undo", "committed", out, "undone"),
        (uuid4(), "redo", "committed", out, "committed"),
        (back, "auto", "undone", None, "undone"),
        (uuid4(), "redo", "committed", back, "undone"),
        (uuid4(), "undo", "committed", back, "committed"),
        (uuid4(), "undo", "failed", out, "failed"),
        (often, "manual", "undone", None, "undone"),
        (uuid4(), "undo", "committed", often, "undone"),
        (uuid4(), "redo", "committed", often, "undone"),
        (uuid4(), "undo", "committed", often, "committed"),
        (uuid4(), "redo", "failed", often, "failed"),
        (again, "manual", "committed", None, "committed"),
        (uuid4(), "undo", "committed", again, "undone"),
        (uuid4(), "redo", "committed", again, "undone"),
        (uuid4(), "undo", "committed", again, "undone"),
        (uuid4(), "redo", "committed", again, "committed"),
    ]
    async with empty_database(database_url) as url:
        await asyncio.to_thread(upgrade, url, "0013")
        async with await psycopg.AsyncConnection.connect(url, autocommit=True) as conn:
            await conn.execute("INSERT INTO threads (thread_id) VALUES (%s)", (thread_id,))
            for record, kind, status, target, _ in told:
                await conn.execute(_RECORD, (record, thread_id, kind, status, target))
        async with open_database(url, min_size=1) as database:
            await migrate(database)
            async with database.pool.connection() as conn:
                cursor = await conn.execute("SELECT compaction_id, status FROM compactions")
                found = {row["compaction_id"]: row["status"] for row in await cursor.fetchall()}
    assert found == {record: expected for record, *_, expected in told}
