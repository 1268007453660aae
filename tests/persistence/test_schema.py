"""Bringing a database to the schema of this version: at once, twice, together, and never backwards."""

from __future__ import annotations

import asyncio
import sys
from asyncio.subprocess import PIPE
from collections.abc import AsyncIterator
from importlib import resources

import pytest
from alembic.config import Config
from alembic.script import ScriptDirectory
from psycopg import AsyncConnection
from psycopg.rows import DictRow

from app.errors import DatabaseError
from app.persistence.database import Database, connect, open_database
from app.persistence.schema import MIGRATIONS_FOLDER, migrate, revisions
from tests.support.postgres import empty_database
from tests.support.server_user import ROOT

MIGRATE = """
import asyncio, sys
from app.persistence.database import open_database
from app.persistence.schema import migrate

async def main():
    async with open_database(sys.argv[1]) as database:
        sys.stdin.readline()
        await migrate(database)

asyncio.run(main())
"""

TABLES = {
    "threads",
    "runs",
    "run_events",
    "compactions",
    "archived_messages",
    "checkpoints",
    "checkpoint_blobs",
    "checkpoint_writes",
    "store",
    "procrastinate_jobs",
}


@pytest.fixture
async def empty(database_template: str) -> AsyncIterator[str]:
    async with empty_database(database_template) as url:
        yield url


async def tables(connection: AsyncConnection[DictRow]) -> set[str]:
    cursor = await connection.execute("SELECT tablename FROM pg_tables WHERE schemaname = 'public'")
    return {row["tablename"] for row in await cursor.fetchall()}


async def shape(connection: AsyncConnection[DictRow]) -> list[tuple[str, ...]]:
    """All columns, indexes, functions, triggers and types, in an order that does not depend on their history."""
    cursor = await connection.execute(
        """
        SELECT 'column' AS kind, table_name || '.' || column_name AS name,
               data_type || is_nullable || coalesce(column_default, '') AS definition
          FROM information_schema.columns WHERE table_schema = 'public'
        UNION ALL SELECT 'index', indexname, indexdef FROM pg_indexes WHERE schemaname = 'public'
        UNION ALL SELECT 'function', p.oid::regprocedure::text, pg_get_functiondef(p.oid)
          FROM pg_proc p WHERE pronamespace = 'public'::regnamespace
        UNION ALL SELECT 'trigger', tgname, pg_get_triggerdef(oid) FROM pg_trigger WHERE NOT tgisinternal
        UNION ALL SELECT 'type', enumtypid::regtype::text, enumlabel FROM pg_enum
        """
    )
    return sorted((row["kind"], row["name"], row["definition"]) for row in await cursor.fetchall())


async def test_an_empty_database_gets_every_table_and_a_second_time_changes_nothing(empty: str) -> None:
    async with open_database(empty) as database:
        await migrate(database)
        async with database.pool.connection() as connection:
            first = await shape(connection)
            assert await tables(connection) >= TABLES
        await migrate(database)
        async with database.pool.connection() as connection:
            assert await shape(connection) == first


def test_the_files_of_the_migrations_are_named_by_their_revisions_in_their_order() -> None:
    config = Config()
    config.set_main_option("script_location", str(MIGRATIONS_FOLDER))
    walked = [script.revision for script in ScriptDirectory.from_config(config).walk_revisions()]
    assert revisions() == walked[::-1]


async def test_five_processes_may_migrate_an_empty_database_at_once(empty: str) -> None:
    command = [sys.executable, "-c", MIGRATE, empty]
    processes = [
        await asyncio.create_subprocess_exec(*command, cwd=ROOT, stdin=PIPE, stderr=PIPE) for _ in range(5)
    ]
    finished = await asyncio.gather(*(process.communicate(b"go\n") for process in processes))
    assert [process.returncode for process in processes] == [0] * 5, finished
    async with await connect(empty) as connection:
        assert await tables(connection) >= TABLES


async def test_migrating_waits_for_another_process_only_so_long(database: Database) -> None:
    async with database.pool.connection() as other:
        await other.execute("SELECT pg_advisory_lock(%s)", (0x7468_7265_6164,))
        with pytest.raises(
            DatabaseError, match=r"Another process has been migrating this database for 0\.3 s"
        ):
            await migrate(database, lock_timeout=0.3)
        await other.execute("SELECT pg_advisory_unlock_all()")
    await migrate(database, lock_timeout=0.3)


async def test_a_schema_newer_than_the_code_is_refused(database: Database) -> None:
    async with database.pool.connection() as connection:
        await connection.execute("UPDATE alembic_version SET version_num = '9999'")
    with pytest.raises(DatabaseError, match=r"schema revision 9999, .* knows up to 0"):
        await migrate(database)


async def test_a_queue_newer_than_the_code_is_refused(database: Database) -> None:
    async with database.pool.connection() as connection:
        await connection.execute("INSERT INTO queue_migrations (name) VALUES ('99.00.00_01_later.sql')")
    with pytest.raises(DatabaseError, match=r"migration 99\.00\.00_01_later\.sql, newer than this version"):
        await migrate(database)


async def test_the_queue_of_another_application_is_left_alone(empty: str) -> None:
    async with open_database(empty) as database:
        async with database.pool.connection() as connection:
            await connection.execute("CREATE TABLE procrastinate_jobs (id int)")
        with pytest.raises(DatabaseError, match="job queue of another application"):
            await migrate(database)


async def test_the_queue_of_an_older_version_gets_its_missing_migrations(
    database: Database, empty: str
) -> None:
    folder = resources.files("procrastinate.sql") / "migrations"
    scripts = {file.name: file for file in folder.iterdir() if file.name.endswith(".sql")}
    async with open_database(empty) as older:
        async with older.pool.connection() as connection:
            await connection.execute(
                "CREATE TABLE queue_migrations (name text PRIMARY KEY, applied_at timestamptz)"
            )
            for name in sorted(scripts):
                if name < "03.02":
                    await connection.execute(scripts[name].read_bytes(), prepare=False)
                    await connection.execute("INSERT INTO queue_migrations VALUES (%s, now())", (name,))
            await connection.execute("ALTER TABLE queue_migrations RENAME TO kept")
        await upgrade_with_record(older)
        async with older.pool.connection() as connection, database.pool.connection() as fresh:
            assert queue_parts(await shape(connection)) == queue_parts(await shape(fresh))


async def upgrade_with_record(older: Database) -> None:
    """Migrate a database whose queue was made, and recorded, by an older version."""
    async with older.pool.connection() as connection:
        await connection.execute("CREATE SCHEMA aside")
        await connection.execute("ALTER TABLE kept SET SCHEMA aside")
    with pytest.raises(DatabaseError, match="another application"):
        await migrate(older)
    async with older.pool.connection() as connection:
        await connection.execute("INSERT INTO queue_migrations (name) SELECT name FROM aside.kept")
    await migrate(older)


def queue_parts(parts: list[tuple[str, ...]]) -> list[tuple[str, ...]]:
    return [part for part in parts if "procrastinate" in part[1] and part[0] != "column"]
