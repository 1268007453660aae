"""The embedded PostgreSQL: one server per data folder, whatever happens to the processes that use it."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import tempfile
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import suppress
from pathlib import Path
from urllib.parse import parse_qs, urlsplit

import psycopg
import pytest

from app.persistence.database import open_database
from tests.support.server_user import ServerUser, ServerUsers, connected


@pytest.fixture
def folder() -> Iterator[Path]:
    # Not pytest's tmp_path: its parents are closed to the account that runs the server for root.
    with tempfile.TemporaryDirectory(prefix="threadkeep-tests-") as parent:
        os.chmod(parent, 0o755)
        yield Path(parent, "data")


@pytest.fixture
async def users(folder: Path) -> AsyncIterator[ServerUsers]:
    started = ServerUsers()
    yield started
    await started.close()


async def remember(user: ServerUser) -> None:
    async with connected(user.url) as connection:
        await connection.execute("CREATE TABLE memory (word text)")
        await connection.execute("INSERT INTO memory VALUES ('elephant')")


async def recall(url: str) -> str:
    async with connected(url) as connection:
        row = await (await connection.execute("SELECT word FROM memory")).fetchone()
    assert row is not None
    return str(row[0])


def server_pid(folder: Path) -> int:
    return int((folder / "postgres" / "cluster" / "postmaster.pid").read_text().split("\n")[0])


def socket_of(user: ServerUser) -> Path:
    return Path(parse_qs(urlsplit(user.url).query)["host"][0])


def is_running(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0] != "Z"
    except FileNotFoundError:
        return False


async def test_data_is_there_after_a_clean_stop_that_takes_less_than_two_seconds(
    users: ServerUsers, folder: Path
) -> None:
    first = await users.start(folder)
    await remember(first)
    pid = server_pid(folder)
    assert await first.leave() < 2
    assert not is_running(pid)
    assert not socket_of(first).exists()
    second = await users.start(folder)
    assert await recall(second.url) == "elephant"


async def test_the_server_is_private_and_has_what_we_need(users: ServerUsers, folder: Path) -> None:
    user = await users.start(folder)
    async with connected(user.url) as connection:
        for extension in ("pg_trgm", "unaccent"):
            await connection.execute(f"CREATE EXTENSION {extension}".encode())
        cursor = await connection.execute(
            "SELECT current_setting('listen_addresses'), datlocprovider, datlocale, pg_encoding_to_char(encoding)"
            " FROM pg_database WHERE datname = current_database()"
        )
        assert await cursor.fetchone() == ("", "b", "C.UTF-8", "UTF8")
    assert socket_of(user).stat().st_mode & 0o077 == 0
    assert (folder / "postgres" / "access.json").stat().st_mode & 0o077 == 0
    password = urlsplit(user.url).password
    assert password is not None
    with pytest.raises(psycopg.OperationalError, match="password authentication failed"):
        await psycopg.AsyncConnection.connect(user.url.replace(password, "guess"))


async def test_data_is_there_after_the_keeper_was_killed(users: ServerUsers, folder: Path) -> None:
    first = await users.start(folder, durable=True)
    await remember(first)
    await first.kill()
    second = await users.start(folder)
    assert await recall(second.url) == "elephant"


async def test_data_is_there_after_keeper_and_server_were_killed(users: ServerUsers, folder: Path) -> None:
    first = await users.start(folder, durable=True)
    await remember(first)
    os.kill(server_pid(folder), signal.SIGKILL)
    await first.kill()
    second = await users.start(folder)
    assert await recall(second.url) == "elephant"


async def test_a_killed_server_is_started_again_and_an_open_pool_goes_on(
    users: ServerUsers, folder: Path
) -> None:
    user = await users.start(folder, durable=True)
    await remember(user)
    async with open_database(user.url) as database:
        killed = server_pid(folder)
        os.kill(killed, signal.SIGKILL)
        assert await recall(user.url) == "elephant"
        assert server_pid(folder) != killed
        async with database.pool.connection() as connection:
            row = await (await connection.execute("SELECT word FROM memory")).fetchone()
            assert row == {"word": "elephant"}


async def test_a_second_process_shares_the_server(users: ServerUsers, folder: Path) -> None:
    first = await users.start(folder)
    await remember(first)
    second = await users.start(folder)
    assert second.url == first.url
    assert await recall(second.url) == "elephant"
    await second.leave()
    assert await recall(first.url) == "elephant"


@pytest.mark.parametrize("ending", ["leave", "kill"])
async def test_a_sharing_process_keeps_the_server_when_its_keeper_ends(
    users: ServerUsers, folder: Path, ending: str
) -> None:
    keeper = await users.start(folder)
    await remember(keeper)
    other = await users.start(folder)
    await (keeper.leave() if ending == "leave" else keeper.kill())
    assert await recall(other.url) == "elephant"
    await other.leave()
    assert (
        not is_running(server_pid(folder)) if (folder / "postgres/cluster/postmaster.pid").exists() else True
    )


async def test_five_processes_starting_at_once_on_an_empty_folder_share_one_server(
    users: ServerUsers, folder: Path
) -> None:
    started = await asyncio.gather(*(users.start(folder) for _ in range(5)))
    assert len({user.url for user in started}) == 1
    async with connected(started[0].url) as connection:
        await connection.execute("SELECT 1")


async def test_a_start_killed_while_it_makes_the_files_is_no_hindrance(
    users: ServerUsers, folder: Path
) -> None:
    process = await users.spawn(folder)
    while not list(folder.glob("postgres/new-*/cluster/*")):
        await asyncio.sleep(0.005)
    process.kill()
    await process.wait()
    assert not (folder / "postgres" / "cluster").exists()
    user = await users.start(folder)
    await remember(user)
    assert not list(folder.glob("postgres/new-*"))


@pytest.mark.parametrize("program", [["sleep", "60"], ["true"]], ids=["program", "zombie"])
async def test_a_process_id_that_went_to_something_else_is_no_hindrance(
    users: ServerUsers, folder: Path, program: list[str]
) -> None:
    first = await users.start(folder)
    await remember(first)
    pid_file = folder / "postgres" / "cluster" / "postmaster.pid"
    account = pid_file.stat()
    with subprocess.Popen(program, **({"user": account.st_uid} if os.geteuid() == 0 else {})) as other:
        left_over = pid_file.read_text().replace(str(server_pid(folder)), str(other.pid), 1)
        await first.leave()
        pid_file.write_text(left_over)
        second = await users.start(folder)
        assert await recall(second.url) == "elephant"
        other.kill()


@pytest.mark.parametrize("left", [None, '{"password": 1'], ids=["lost", "damaged"])
async def test_a_lost_password_is_no_hindrance(users: ServerUsers, folder: Path, left: str | None) -> None:
    first = await users.start(folder)
    await remember(first)
    await first.leave()
    access = folder / "postgres" / "access.json"
    access.unlink()
    if left is not None:
        access.write_text(left)
    second = await users.start(folder)
    assert second.url != first.url
    assert await recall(second.url) == "elephant"


async def test_a_copy_of_the_folder_has_a_server_of_its_own(users: ServerUsers, folder: Path) -> None:
    first = await users.start(folder)
    await remember(first)
    await first.leave()
    first = await users.start(folder)
    copy = folder.with_name("copy")
    subprocess.run(["cp", "-a", folder, copy], check=True)
    second = await users.start(copy)
    async with connected(second.url) as connection:
        await connection.execute("UPDATE memory SET word = 'mouse'")
    assert await recall(first.url) == "elephant"
    assert await recall(second.url) == "mouse"


async def test_ctrl_c_in_the_terminal_leaves_the_server_to_the_keeper(
    users: ServerUsers, folder: Path
) -> None:
    user = await users.start(folder)
    assert os.getpgid(server_pid(folder)) != os.getpgid(user.process.pid)


async def test_the_server_ends_soon_after_its_last_user_was_killed(users: ServerUsers, folder: Path) -> None:
    user = await users.start(folder)
    pid = server_pid(folder)
    await user.kill()
    deadline = time.monotonic() + 10
    while is_running(pid) and time.monotonic() < deadline:
        await asyncio.sleep(0.05)
    assert not is_running(pid)
    with suppress(FileNotFoundError):
        socket_of(user).rmdir()
