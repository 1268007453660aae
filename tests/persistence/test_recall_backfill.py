"""What was archived before there was an index waits for it after the migration."""

from __future__ import annotations

import asyncio
import json
from uuid import uuid4

import psycopg
from alembic import command
from alembic.config import Config
from sqlalchemy import NullPool, create_engine

from app.persistence.archive import ArchiveStore
from app.persistence.database import open_database
from app.persistence.recall import RecallStore
from app.persistence.schema import MIGRATIONS_FOLDER, migrate
from app.services.recall.index import RecallIndexer
from app.services.recall.service import RecallService
from tests.support.postgres import empty_database


def upgrade(url: str, revision: str) -> None:
    config = Config()
    config.set_main_option("script_location", str(MIGRATIONS_FOLDER))
    engine = create_engine("postgresql+psycopg://", creator=lambda: psycopg.connect(url), poolclass=NullPool)
    with engine.connect() as connection:
        config.attributes["connection"] = connection
        command.upgrade(config, revision)


async def test_messages_archived_by_an_older_version_are_found(database_url: str) -> None:
    thread_id, compaction = str(uuid4()), str(uuid4())
    async with empty_database(database_url) as url:
        await asyncio.to_thread(upgrade, url, "0004")
        async with await psycopg.AsyncConnection.connect(url, autocommit=True) as conn:
            await conn.execute("INSERT INTO threads (thread_id) VALUES (%s)", (thread_id,))
            await conn.execute(
                """INSERT INTO compactions (compaction_id, thread_id, kind, status, removed_ids, removed_digests)
                   VALUES (%s, %s, 'manual', 'committed', '{old}', '{d}')""",
                (compaction, thread_id),
            )
            message = json.dumps({"type": "human", "id": "old", "content": "the zebra of before"})
            await conn.execute(
                """INSERT INTO archived_messages (thread_id, message_id, digest, compaction_id, position, message)
                   VALUES (%s, 'old', 'd', %s, 0, %s)""",
                (thread_id, compaction, message),
            )
        async with open_database(url, min_size=1) as database:
            await migrate(database)
            store = RecallStore(database.pool)
            assert await store.is_behind(thread_id)
            recall = RecallService(store, ArchiveStore(database.pool), RecallIndexer(store))
            state = {"messages": [], "compaction": {"compaction_id": compaction}}
            found = await recall.search(thread_id, state, "zebra", 5)
            assert [past.reference for past in found.messages] == ["old"]
            assert not await store.is_behind(thread_id)
