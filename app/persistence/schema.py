"""The schema: brings a database to what this version of the code expects, one process at a time."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from importlib import resources
from pathlib import Path

import psycopg
from langgraph.checkpoint.postgres.aio import AsyncPostgresSaver
from langgraph.store.postgres.aio import AsyncPostgresStore
from psycopg import AsyncConnection
from psycopg.rows import DictRow

from app.errors import DatabaseError
from app.loading import load
from app.persistence.database import Database

MIGRATIONS_FOLDER = Path(__file__).resolve().parents[2] / "migrations"

LOCK_KEY = 0x7468_7265_6164  # "thread": any number no other application of the database takes
_POLL_SECONDS = 0.1
_UPGRADE = "app.persistence.upgrade:upgrade"


async def migrate(database: Database, *, lock_timeout: float = 120.0) -> None:
    """Bring every schema in ``database`` up to date; safe to call from several processes at once.

    ``lock_timeout`` is how many seconds to wait for another process that is doing the same. Raises
    DatabaseError if that takes longer, if the schema is newer than this code, or if a statement fails.
    """
    try:
        async with database.pool.connection() as connection, _alone(connection, lock_timeout):
            await _upgrade_own_schema(connection, database.url)
            await AsyncPostgresSaver(connection).setup()
            await AsyncPostgresStore(connection).setup()
            await _upgrade_queue(connection)
            await _wake_waiting_jobs(connection)
    except psycopg.Error as error:
        reason = str(error).splitlines() or [type(error).__name__]
        raise DatabaseError(f"Cannot prepare {database.label}: {reason[0]}") from error


@asynccontextmanager
async def _alone(connection: AsyncConnection[DictRow], patience: float) -> AsyncIterator[None]:
    # Polling, because a statement that waits for the lock holds a snapshot, and CREATE INDEX CONCURRENTLY in
    # another process waits for every snapshot: a deadlock.
    try:
        async with asyncio.timeout(patience):
            while not await _try_lock(connection):  # noqa: ASYNC110 (the other process cannot set an event here)
                await asyncio.sleep(_POLL_SECONDS)
    except TimeoutError:
        raise DatabaseError(
            f"Another process has been migrating this database for {patience:g} s; try again when it is done"
        ) from None
    try:
        yield
    finally:
        if not connection.broken:
            await connection.execute("SELECT pg_advisory_unlock(%s)", (LOCK_KEY,))


async def _try_lock(connection: AsyncConnection[DictRow]) -> bool:
    cursor = await connection.execute("SELECT pg_try_advisory_lock(%s) AS held", (LOCK_KEY,))
    row = await cursor.fetchone()
    return row is not None and bool(row["held"])


async def _upgrade_own_schema(connection: AsyncConnection[DictRow], url: str) -> None:
    known = revisions()
    found = await _revision(connection)
    if found == known[-1]:
        return
    if found is not None and found not in known:
        raise DatabaseError(
            f"The database has schema revision {found}, this version of Threadkeep knows up to {known[-1]}; "
            "run a newer version"
        )
    await asyncio.to_thread(await asyncio.to_thread(load, _UPGRADE), url, MIGRATIONS_FOLDER)


def revisions() -> list[str]:
    """The revisions that this version knows, oldest first: the names of their files begin with them."""
    return sorted(file.name.partition("_")[0] for file in (MIGRATIONS_FOLDER / "versions").glob("*.py"))


async def _revision(connection: AsyncConnection[DictRow]) -> str | None:
    cursor = await connection.execute("SELECT to_regclass('alembic_version') IS NOT NULL AS present")
    row = await cursor.fetchone()
    if row is None or not row["present"]:
        return None
    row = await (await connection.execute("SELECT version_num FROM alembic_version")).fetchone()
    return None if row is None else str(row["version_num"])


async def _upgrade_queue(connection: AsyncConnection[DictRow]) -> None:
    known = _queue_migrations()
    cursor = await connection.execute(
        "SELECT to_regclass('procrastinate_jobs') IS NOT NULL AS present,"
        " array(SELECT name FROM queue_migrations) AS had"
    )
    row = await cursor.fetchone()
    assert row is not None
    had = set(row["had"])
    if had - known.keys():
        raise DatabaseError(
            f"The job queue has migration {max(had - known.keys())}, newer than this version of Threadkeep "
            "knows; run a newer version"
        )
    if not row["present"]:
        sql = (resources.files("procrastinate.sql") / "schema.sql").read_text(encoding="utf-8")
        await _apply(connection, sql, list(known))
        return
    if not had:
        raise DatabaseError(
            "The database holds a job queue of another application (table procrastinate_jobs); "
            "use a database of its own"
        )
    for name in sorted(known.keys() - had):
        await _apply(connection, known[name], [name])


async def _wake_waiting_jobs(connection: AsyncConnection[DictRow]) -> None:
    """Procrastinate announces jobs that are inserted, not those whose lock becomes free or that are put back: they
    would wait for the next poll, seconds later. A trigger of ours announces them too."""
    cursor = await connection.execute("SELECT to_regproc('threadkeep_wake_waiting_job') IS NULL AS missing")
    row = await cursor.fetchone()
    if row is not None and row["missing"]:
        async with connection.transaction():
            await connection.execute(_WAKE_WAITING_JOBS.encode(), prepare=False)


def _queue_migrations() -> dict[str, str]:
    folder = resources.files("procrastinate.sql") / "migrations"
    files = [file for file in folder.iterdir() if file.name.endswith(".sql")]
    return {file.name: file.read_text(encoding="utf-8") for file in sorted(files, key=lambda file: file.name)}


async def _apply(connection: AsyncConnection[DictRow], sql: str, names: list[str]) -> None:
    async with connection.transaction():
        # Prepared statements hold one command each.
        await connection.execute(sql.encode(), prepare=False)
        await connection.execute("INSERT INTO queue_migrations (name) SELECT unnest(%s::text[])", (names,))


_WAKE_WAITING_JOBS = """
CREATE FUNCTION threadkeep_wake_waiting_job() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF EXISTS (SELECT 1 FROM procrastinate_jobs WHERE lock = OLD.lock AND status = 'todo') THEN
        PERFORM pg_notify(
            'procrastinate_queue_v1#' || OLD.queue_name,
            json_build_object('type', 'job_inserted', 'job_id', OLD.id)::text);
    END IF;
    RETURN NULL;
END;
$$;
CREATE TRIGGER threadkeep_lock_is_free AFTER DELETE ON procrastinate_jobs
    FOR EACH ROW EXECUTE FUNCTION threadkeep_wake_waiting_job();
CREATE TRIGGER threadkeep_job_is_back AFTER UPDATE OF status ON procrastinate_jobs
    FOR EACH ROW WHEN (OLD.status = 'doing' AND NEW.status <> 'doing')
    EXECUTE FUNCTION threadkeep_wake_waiting_job();
"""
