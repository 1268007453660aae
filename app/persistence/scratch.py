"""A database for a while: empty, nobody else's, and gone afterwards."""

from __future__ import annotations

import asyncio
import os
import secrets
import shutil
import signal
import tempfile
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager, suppress
from pathlib import Path

import psycopg
from psycopg import sql
from psycopg.conninfo import make_conninfo

from app.errors import DatabaseError
from app.persistence.database import connect, describe_url
from app.persistence.embedded import embedded_postgres
from app.persistence.embedded.home import open_home

_PREFIX = "threadkeep_scratch_"


@contextmanager
def scratch_folder(parent: Path) -> Iterator[Path]:
    """A new folder in ``parent``, removed at the end with all that is in it. Of ``parent`` only what was there before
    is left."""
    made = [path for path in (parent, *parent.parents) if not path.exists()]
    parent.mkdir(parents=True, exist_ok=True)
    folder = Path(tempfile.mkdtemp(prefix="scratch-", dir=parent))
    if os.geteuid() == 0:
        # The account that runs the server for root must get through.
        folder.chmod(0o711)
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)
        for path in made:
            with suppress(OSError):
                path.rmdir()


@asynccontextmanager
async def scratch_database(server_url: str | None, folder: Path) -> AsyncIterator[str]:
    """How to reach a new, empty database, which is dropped at the end.

    With ``server_url`` it is one on that server; without, that of an embedded server of its own in ``folder``.
    Raises DatabaseError, also when the server's user may not create databases.
    """
    if server_url is not None:
        async with _database_on(server_url) as url:
            yield url
        return
    try:
        async with embedded_postgres(folder) as url:
            yield url
    finally:
        await asyncio.to_thread(_remove_server, folder)


def restart_server(folder: Path) -> None:
    """End the embedded server of ``folder`` as an operator would; whoever keeps it starts it again. For trying what
    happens then. Raises OSError when none runs."""
    cluster = open_home(folder).cluster
    os.kill(int((cluster / "postmaster.pid").read_text().split()[0]), signal.SIGINT)


@asynccontextmanager
async def _database_on(server_url: str) -> AsyncIterator[str]:
    name = sql.Identifier(database := _PREFIX + secrets.token_hex(8))
    try:
        async with await connect(server_url) as server:
            await server.execute(sql.SQL("CREATE DATABASE {}").format(name))
    except psycopg.Error as error:
        reason = str(error).splitlines()[0]
        raise DatabaseError(
            f"Cannot create a database for a while on {describe_url(server_url)}: {reason}"
        ) from None
    try:
        yield make_conninfo(server_url, dbname=database)
    finally:
        async with await connect(server_url) as server:
            await server.execute(sql.SQL("DROP DATABASE {} WITH (FORCE)").format(name))


def _remove_server(folder: Path) -> None:
    # Where the account that runs the server cannot get to the folder, the server's files lie elsewhere.
    with suppress(DatabaseError, OSError):
        shutil.rmtree(open_home(folder).folder)
