"""A database for a while is empty, somebody's own, and gone afterwards, also when its user fails."""

from __future__ import annotations

from pathlib import Path
from uuid import uuid4

import pytest
from langchain_core.messages import HumanMessage
from psycopg import sql
from psycopg.conninfo import make_conninfo

from app.errors import DatabaseError
from app.persistence.compactions import CompactionRecord, CompactionStore
from app.persistence.database import Database, connect, open_database
from app.persistence.schema import migrate
from app.persistence.scratch import scratch_database, scratch_folder
from app.persistence.sizes import stored_bytes
from app.persistence.threads import ThreadStore


async def names(url: str) -> set[str]:
    async with await connect(url) as connection:
        cursor = await connection.execute("SELECT datname FROM pg_database")
        return {row["datname"] for row in await cursor.fetchall()}


async def test_it_can_be_migrated_and_is_dropped_with_whoever_is_still_connected(
    database_url: str, tmp_path: Path
) -> None:
    async with scratch_database(database_url, tmp_path) as url:
        async with open_database(url, min_size=1) as database:
            await migrate(database)
        left_open = await connect(url)
    created = left_open.info.dbname
    await left_open.close()
    # Other tests make databases on this server, too: only this one is looked for.
    assert created not in await names(database_url)


async def test_it_is_dropped_when_the_work_in_it_fails(database_url: str, tmp_path: Path) -> None:
    created = ""
    with pytest.raises(ZeroDivisionError):
        async with scratch_database(database_url, tmp_path) as url, await connect(url) as connection:
            created = connection.info.dbname
            raise ZeroDivisionError
    assert created
    assert created not in await names(database_url)


async def test_who_may_not_create_databases_is_told_so_in_one_line(database_url: str, tmp_path: Path) -> None:
    role = f"reader_{uuid4().hex}"
    async with await connect(database_url) as connection:
        name = sql.Identifier(role)
        await connection.execute(sql.SQL("CREATE ROLE {} LOGIN PASSWORD 'hush-hush'").format(name))
        try:
            url = make_conninfo(database_url, user=role, password="hush-hush")
            with pytest.raises(DatabaseError, match="permission denied to create database") as refused:
                async with scratch_database(url, tmp_path):
                    pass
        finally:
            await connection.execute(sql.SQL("DROP ROLE {}").format(name))
    assert "\n" not in str(refused.value)
    assert "hush-hush" not in str(refused.value)


def test_a_folder_goes_with_its_contents_and_the_parents_that_were_made_for_it(tmp_path: Path) -> None:
    with scratch_folder(tmp_path / "a" / "b") as folder:
        (folder / "deep").mkdir()
        (folder / "deep" / "file").write_text("text")
    assert list(tmp_path.iterdir()) == []


def test_a_parent_that_was_there_or_that_others_use_now_is_left(tmp_path: Path) -> None:
    (tmp_path / "data").mkdir()
    with scratch_folder(tmp_path / "data"):
        pass
    with scratch_folder(tmp_path / "new") as folder:
        (folder.parent / "somebody's").write_text("text")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["data", "new"]
    assert list((tmp_path / "data").iterdir()) == []


async def test_the_size_of_a_thread_is_its_own_and_grows_with_what_is_archived(database: Database) -> None:
    threads, records = ThreadStore(database.pool), CompactionStore(database.pool)
    for thread_id in ("one", "other"):
        await threads.create(thread_id, "", {})
    record = CompactionRecord(str(uuid4()), "one", None, "manual", "committing")
    await records.begin(record, [HumanMessage("text " * 100, id="m1")], ["m1"])
    mine, others = await stored_bytes(database.pool, "one"), await stored_bytes(database.pool, "other")
    assert mine.archive > 50
    assert (mine.checkpoints, others.checkpoints, others.archive) == (0, 0, 0)
