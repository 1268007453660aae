"""The database: an open pool of connections, and the schema in it."""

from __future__ import annotations

import re
import select
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

import psycopg
from psycopg import AsyncConnection
from psycopg.conninfo import conninfo_to_dict
from psycopg.rows import DictRow, dict_row
from psycopg_pool import AsyncConnectionPool, PoolTimeout

from app.errors import DatabaseError
from app.persistence.tracing import TracedCursor

Pool = AsyncConnectionPool[AsyncConnection[DictRow]]

# Used where the URL does not say otherwise. Times in seconds: without them a host that went away without a word
# holds its callers for hours.
_OPTIONS = {
    "application_name": "threadkeep",
    "connect_timeout": "10",
    "keepalives_idle": "30",
    "keepalives_interval": "10",
    "keepalives_count": "3",
}
# What a request waits for a free connection before it is a 503; psycopg's own thirty outlast many clients.
_CHECKOUT_SECONDS = 10.0
# How long after a server is back it may take to be noticed.
_RECONNECT_SECONDS = 1.0
_FORM = (
    "postgresql://user:password@host:port/database"
    " (write @ : / ? # and % in a user name or password as %40 %3A %2F %3F %23 %25)"
)
_HOST = re.compile(r"[\w.:%,\-\[\]]*")


@dataclass(frozen=True)
class Database:
    """An open database. ``label`` may be shown to people; ``url`` holds the password and may not."""

    pool: Pool
    label: str
    url: str = field(repr=False)


def describe_url(url: str) -> str:
    """Name the server and database of ``url`` without its password.

    Raises DatabaseError if ``url`` is not one of a PostgreSQL database.
    """
    parts = _parse(url)
    host = parts.get("host") or "localhost"
    where = host if host.startswith("/") else f"{host}:{parts.get('port') or 5432}"
    return f"postgresql at {where}, database {parts.get('dbname') or parts.get('user') or 'default'}"


@asynccontextmanager
async def open_database(url: str, *, min_size: int = 2, max_size: int = 20) -> AsyncIterator[Database]:
    """Open the database at ``url`` for as long as the block runs.

    ``min_size`` and ``max_size`` bound the connections of this process. Raises DatabaseError, in one line
    that never holds the password, if the URL is wrong or the server cannot be reached or refuses us.
    """
    label = describe_url(url)
    # A pool hides why it cannot connect behind a long series of retries, so ask the server once, directly.
    connection = await connect(url)
    await connection.close()
    pool: Pool = AsyncConnectionPool(
        url,
        open=False,
        min_size=min(min_size, max_size),
        max_size=max_size,
        check=_refuse_closed,
        timeout=_CHECKOUT_SECONDS,
        reconnect_timeout=_RECONNECT_SECONDS,
        reconnect_failed=_try_again,
        configure=_autocommit,
        kwargs={
            "prepare_threshold": 0,
            "row_factory": dict_row,
            "cursor_factory": TracedCursor,
            **_options(url),
        },
    )
    try:
        await pool.open(wait=True, timeout=30)
    except PoolTimeout as error:
        await pool.close()
        raise DatabaseError(f"Cannot open {min_size} connections to {label}") from error
    try:
        yield Database(pool, label, url)
    finally:
        await pool.close()


async def _try_again(pool: Pool) -> None:
    # The pool doubles its pauses until it gives up: after a minute without a server it would need another one to
    # notice that there is one again. So it gives up soon and begins anew.
    await pool.check()


async def _autocommit(connection: AsyncConnection[DictRow]) -> None:
    # Not among the connection arguments: procrastinate opens its listener with those and its own autocommit.
    await connection.set_autocommit(True)


async def connect(url: str) -> AsyncConnection[DictRow]:
    """Open one connection (autocommit, rows as dicts). Raises DatabaseError as ``open_database`` does."""
    label = describe_url(url)
    try:
        return await AsyncConnection.connect(url, autocommit=True, row_factory=dict_row, **_options(url))
    except psycopg.Error as error:
        raise DatabaseError(f"Cannot connect to {label}: {_one_line(error, _parse(url))}") from None


async def _refuse_closed(connection: AsyncConnection[DictRow]) -> None:
    # A server that was restarted must cost nobody a request, so the pool replaces what raises here. Asking the
    # server each time would double the price of a small query; a closed connection is a readable one.
    readable = select.poll()
    readable.register(connection.fileno(), select.POLLIN)
    if readable.poll(0):
        await AsyncConnectionPool.check_connection(connection)


def _options(url: str) -> dict[str, Any]:
    given = _parse(url)
    return {name: value for name, value in _OPTIONS.items() if name not in given}


def _parse(url: str) -> dict[str, Any]:
    # libpq quotes what it cannot parse, and that may be a piece of the password: its text is not shown.
    try:
        parts = conninfo_to_dict(url)
    except psycopg.Error:
        raise DatabaseError(f"The database URL is not valid; it has the form {_FORM}") from None
    host, port, name = (str(parts.get(key) or "") for key in ("host", "port", "dbname"))
    if (
        not parts
        or not (host.startswith("/") or _HOST.fullmatch(host))
        or re.search(r"[^\d,]", port)
        or "@" in name
    ):
        raise DatabaseError(
            f"The host, port or database of the database URL is not valid; it has the form {_FORM}"
        )
    return parts


def _one_line(error: psycopg.Error, parts: dict[str, Any]) -> str:
    text = next((line.strip() for line in str(error).splitlines() if line.strip()), type(error).__name__)
    password = str(parts.get("password") or "")
    return text.replace(password, "***") if password else text
