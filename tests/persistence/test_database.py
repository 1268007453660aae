"""Opening a database: what works, and what people are told when it does not."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import AsyncIterator
from urllib.parse import quote, urlsplit
from uuid import uuid4

import psycopg
import pytest
from psycopg import sql

from app.errors import DatabaseError
from app.persistence.database import Database, describe_url, open_database
from app.persistence.schema import migrate
from tests.support.postgres import empty_database

ODD_PASSWORD = "p@ss:w/o?r#d 100%"


async def refusal(url: str) -> str:
    with pytest.raises(DatabaseError) as caught:
        async with open_database(url):
            pass
    assert "\n" not in caught.value.detail
    return caught.value.detail


async def test_an_open_database_serves_rows_as_dicts_and_commits_at_once(database: Database) -> None:
    async with database.pool.connection() as connection:
        await connection.execute("INSERT INTO threads (thread_id) VALUES ('a')")
    async with database.pool.connection() as connection:
        row = await (await connection.execute("SELECT thread_id, status FROM threads")).fetchone()
    assert row == {"thread_id": "a", "status": "idle"}


async def test_a_connection_that_the_server_closed_is_replaced_before_use(database_url: str) -> None:
    async with open_database(database_url, min_size=3, max_size=3) as database:
        async with await psycopg.AsyncConnection.connect(database_url) as other:
            await other.execute(
                "SELECT pg_terminate_backend(pid, 10000) FROM pg_stat_activity"
                " WHERE datname = current_database() AND pid <> pg_backend_pid()"
            )
        for _ in range(3):
            async with database.pool.connection() as connection:
                await connection.execute("SELECT 1")


async def test_nothing_that_prints_a_database_shows_its_password(database: Database) -> None:
    password = urlsplit(database.url).password
    assert password is not None
    assert password not in repr(database)
    assert password not in database.label


@pytest.fixture
async def odd_login(database_url: str) -> AsyncIterator[tuple[str, str]]:
    """The name of a database owner whose password has every special character, and his URL."""
    name = sql.Identifier(role := f"threadkeep_test_{uuid4().hex}")
    database = sql.Identifier(urlsplit(database_url).path[1:])
    async with await psycopg.AsyncConnection.connect(database_url, autocommit=True) as connection:
        await connection.execute(sql.SQL("CREATE ROLE {} LOGIN PASSWORD {}").format(name, ODD_PASSWORD))
        await connection.execute(sql.SQL("ALTER DATABASE {} OWNER TO {}").format(database, name))
        parts = urlsplit(database_url)
        host = parts.netloc.rpartition("@")[2]
        yield role, parts._replace(netloc=f"{role}:{quote(ODD_PASSWORD, safe='')}@{host}").geturl()
        await connection.execute(sql.SQL("DROP OWNED BY {} CASCADE").format(name))
        await connection.execute(sql.SQL("ALTER DATABASE {} OWNER TO CURRENT_USER").format(database))
        await connection.execute(sql.SQL("DROP ROLE {}").format(name))


async def test_a_password_with_special_characters_works_for_the_pool_and_for_migrations(
    odd_login: tuple[str, str], database_url: str
) -> None:
    role, url = odd_login
    async with await psycopg.AsyncConnection.connect(database_url, autocommit=True) as connection:
        await connection.execute("DROP SCHEMA public CASCADE")
        await connection.execute(
            sql.SQL("CREATE SCHEMA public AUTHORIZATION {}").format(sql.Identifier(role))
        )
    async with open_database(url) as database:
        await migrate(database)
        async with database.pool.connection() as opened:
            row = await (await opened.execute("SELECT current_user AS name")).fetchone()
    assert row == {"name": role}


async def test_a_wrong_password_is_one_line_that_names_the_user_and_not_the_password(
    database_url: str,
) -> None:
    password = urlsplit(database_url).password
    assert password is not None
    detail = await refusal(database_url.replace(password, "wrong-secret"))
    assert "password authentication failed for user" in detail
    assert "wrong-secret" not in detail


async def test_a_database_that_does_not_exist_is_named(database_url: str) -> None:
    detail = await refusal(urlsplit(database_url)._replace(path="/missing").geturl())
    assert 'database "missing" does not exist' in detail


async def test_a_port_where_nobody_listens_is_named() -> None:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    detail = await refusal(f"postgresql://me:secret@127.0.0.1:{port}/work")
    assert detail.startswith(f"Cannot connect to postgresql at 127.0.0.1:{port}, database work: ")
    assert "Connection refused" in detail
    assert "secret" not in detail


async def test_a_host_that_does_not_exist_is_named() -> None:
    detail = await refusal("postgresql://me:secret@no-such-host.invalid/work")
    assert "no-such-host.invalid" in detail
    assert "secret" not in detail


async def test_a_server_that_never_answers_is_given_up(unused_tcp_port: int) -> None:
    listener = await asyncio.start_server(lambda _reader, _writer: None, "127.0.0.1", unused_tcp_port)
    async with listener:
        detail = await refusal(f"postgresql://me:secret@127.0.0.1:{unused_tcp_port}/work?connect_timeout=2")
    assert "timeout" in detail


@pytest.mark.parametrize(
    "url",
    [
        "",
        "secret",
        "mysql://me:secret@host/work",
        "postgresql+asyncpg://me:secret@host/work",
        "postgresql://me:secret@host:port/work",
        "postgresql://me:pass@secret@host/work",
        "postgresql://me:pass/secret@host/work",
        "postgresql://me:12/secret@host/work",
        "postgresql://me:%secret@host/work",
        "postgresql://me:secret@host/work?no_such_option=1",
    ],
)
async def test_a_url_that_is_none_is_one_line_that_shows_the_form_and_no_secret(url: str) -> None:
    detail = await refusal(url)
    assert "postgresql://user:password@host:port/database" in detail
    assert "secret" not in detail


@pytest.mark.parametrize(
    ("url", "label"),
    [
        (
            "postgresql://me:secret@db.example.org:5433/work",
            "postgresql at db.example.org:5433, database work",
        ),
        ("postgres://me:secret@db/work?sslmode=require", "postgresql at db:5432, database work"),
        ("postgresql://me:secret@[::1]/work", "postgresql at ::1:5432, database work"),
        ("postgresql://me:secret@/work?host=/run/pg", "postgresql at /run/pg, database work"),
        ("host=db user=me password=secret dbname=work", "postgresql at db:5432, database work"),
    ],
)
def test_a_label_says_where_the_database_is(url: str, label: str) -> None:
    assert describe_url(url) == label


async def test_no_two_tests_share_a_database(database_template: str) -> None:
    async with empty_database(database_template) as first, empty_database(database_template) as second:
        assert first != second
