"""Processes that use the embedded server of a folder until they are told to leave, or are killed."""

from __future__ import annotations

import asyncio
import os
import shutil
import signal
import sys
import time
from asyncio.subprocess import PIPE, Process
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

import psycopg

from app.errors import DatabaseError
from app.persistence.embedded import embedded_postgres

ROOT = Path(__file__).resolve().parents[2]
_PATIENCE_SECONDS = 60.0


@dataclass(frozen=True)
class ServerUser:
    """A running process and the URL of the database it was given."""

    process: Process
    url: str

    async def leave(self) -> float:
        """Let the process end by itself; how many seconds that took."""
        began = time.monotonic()
        assert self.process.stdin is not None
        self.process.stdin.close()
        assert await asyncio.wait_for(self.process.wait(), _PATIENCE_SECONDS) == 0
        return time.monotonic() - began

    async def kill(self) -> None:
        self.process.send_signal(signal.SIGKILL)
        await self.process.wait()


class ServerUsers:
    """Starts processes, and ends those that a test leaves behind."""

    def __init__(self) -> None:
        self._processes: list[Process] = []

    async def start(self, data_dir: Path, prefix: Sequence[str] = (), *, durable: bool = False) -> ServerUser:
        """A process that uses the server of ``data_dir``; ``prefix`` is a command to run it under.

        ``durable`` as in service: what was committed survives the server's being killed. Slower.
        """
        process = await self.spawn(data_dir, prefix, durable=durable)
        assert process.stdout is not None
        url = (await asyncio.wait_for(process.stdout.readline(), _PATIENCE_SECONDS)).decode().strip()
        if not url:
            _, error = await process.communicate()
            raise AssertionError(error.decode())
        return ServerUser(process, url)

    async def refusal(self, data_dir: Path, prefix: Sequence[str] = ()) -> str:
        """What a process prints that cannot use the server of ``data_dir``."""
        process = await self.spawn(data_dir, prefix)
        output, error = await asyncio.wait_for(process.communicate(), _PATIENCE_SECONDS)
        assert process.returncode == 3, (output, error)
        return error.decode()

    async def spawn(self, data_dir: Path, prefix: Sequence[str] = (), *, durable: bool = False) -> Process:
        command = [*prefix, sys.executable, "-m", __name__, str(data_dir), "durable" if durable else "fast"]
        process = await asyncio.create_subprocess_exec(
            *command, cwd=ROOT, stdin=PIPE, stdout=PIPE, stderr=PIPE
        )
        self._processes.append(process)
        return process

    async def close(self) -> None:
        for process in self._processes:
            if process.returncode is None:
                assert process.stdin is not None
                process.stdin.close()
                await asyncio.wait_for(process.wait(), _PATIENCE_SECONDS)


@asynccontextmanager
async def connected(url: str) -> AsyncIterator[psycopg.AsyncConnection[tuple[object, ...]]]:
    """A connection to a server that may be starting again at this moment."""
    deadline = time.monotonic() + _PATIENCE_SECONDS
    while True:
        try:
            connection = await psycopg.AsyncConnection.connect(url, autocommit=True)
            break
        except psycopg.OperationalError:
            if time.monotonic() > deadline:
                raise
            await asyncio.sleep(0.05)
    async with connection:
        yield connection


def as_nobody() -> list[str]:
    """The command under which root runs a program as a normal user.

    The program may still read everything, since the interpreter often lies in root's own folder, but it writes
    where nobody may write and no more.
    """
    capability = "+dac_read_search"
    command = ["setpriv", "--reuid=nobody", "--regid=65534", "--clear-groups"]
    return [*command, f"--inh-caps={capability}", f"--ambient-caps={capability}"]


def can_be_nobody() -> bool:
    return os.geteuid() == 0 and shutil.which("setpriv") is not None


async def main(data_dir: Path, *, durable: bool = False) -> int:
    try:
        async with embedded_postgres(data_dir, durable=durable) as url:
            print(url, flush=True)  # noqa: T201 (read by the test)
            await asyncio.to_thread(sys.stdin.read)
    except DatabaseError as error:
        print(error.detail, file=sys.stderr)  # noqa: T201 (read by the test)
        return 3
    return 0


if __name__ == "__main__":
    sys.exit(asyncio.run(main(Path(sys.argv[1]), durable=sys.argv[2] == "durable")))
