"""One PostgreSQL server for a whole test run, with a migrated template that each test clones."""

from __future__ import annotations

import os
import tempfile
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from urllib.parse import urlsplit
from uuid import uuid4

from anyio.from_thread import start_blocking_portal
from psycopg import sql

from app.persistence.database import connect, open_database
from app.persistence.embedded import embedded_postgres
from app.persistence.schema import migrate
from tests.support.places import quick_folder

SERVER_VARIABLE = "THREADKEEP_TEST_DATABASE_URL"


@contextmanager
def template_database() -> Iterator[str]:
    """The URL of a migrated database to clone, on the server the environment names or an embedded one."""
    with start_blocking_portal() as portal, portal.wrap_async_context_manager(_template()) as url:
        yield url


@asynccontextmanager
async def clone(template: str) -> AsyncIterator[str]:
    """The URL of a new database with the contents of ``template``, which nobody may be connected to."""
    name = f"threadkeep_test_{uuid4().hex}"
    source = sql.Identifier(urlsplit(template).path[1:])
    async with await connect(_sibling(template, "postgres")) as server:
        await server.execute(
            sql.SQL("CREATE DATABASE {} TEMPLATE {} STRATEGY file_copy").format(sql.Identifier(name), source)
        )
    try:
        yield _sibling(template, name)
    finally:
        await drop(_sibling(template, name))


async def drop(url: str) -> None:
    """Drop the database at ``url``, with whoever is connected to it."""
    name = sql.Identifier(urlsplit(url).path[1:])
    async with await connect(_sibling(url, "postgres")) as server:
        await server.execute(sql.SQL("DROP DATABASE IF EXISTS {} WITH (FORCE)").format(name))


@asynccontextmanager
async def empty_database(server_url: str) -> AsyncIterator[str]:
    """The URL of a new database without any schema on the server of ``server_url``."""
    name = f"threadkeep_test_{uuid4().hex}"
    async with await connect(_sibling(server_url, "postgres")) as server:
        await server.execute(sql.SQL("CREATE DATABASE {}").format(sql.Identifier(name)))
    try:
        yield _sibling(server_url, name)
    finally:
        await drop(_sibling(server_url, name))


@asynccontextmanager
async def _template() -> AsyncIterator[str]:
    async with _server() as server_url, empty_database(server_url) as url:
        async with open_database(url, min_size=1) as database:
            await migrate(database)
        yield url


@asynccontextmanager
async def _server() -> AsyncIterator[str]:
    if given := os.environ.get(SERVER_VARIABLE):
        yield given
        return
    with tempfile.TemporaryDirectory(prefix="threadkeep-tests-", dir=quick_folder()) as folder:
        # The account that runs the server for root must get through; the folder inside is closed again.
        os.chmod(folder, 0o711)
        async with embedded_postgres(Path(folder, "data"), durable=False) as url:
            yield url


def _sibling(url: str, name: str) -> str:
    return urlsplit(url)._replace(path=f"/{name}").geturl()
