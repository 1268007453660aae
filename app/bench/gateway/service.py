"""The service under measurement: processes of its own, as its users start it."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import sys
import tempfile
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import quote, urlencode, urlsplit

from psycopg.conninfo import conninfo_to_dict

from app.config import Settings
from app.errors import DatabaseError

_READY_SECONDS = 60.0
_STOP_SECONDS = 30.0
_ROOT = Path(__file__).parents[3]
_FOREIGN = ("THREADKEEP_", "DATABASE_URL", "OTEL_")
_TICKS = os.sysconf("SC_CLK_TCK")


@dataclass(frozen=True, slots=True)
class Usage:
    """What a process has used so far: seconds of processor time, bytes of memory that are its own."""

    cpu_s: float
    memory_bytes: int


@dataclass(frozen=True, slots=True)
class Service:
    """A running process. ``host`` and ``port`` are where it serves; a worker serves nothing (port 0)."""

    process: asyncio.subprocess.Process
    host: str = ""
    port: int = 0

    def usage(self) -> Usage | None:
        """None where the system does not tell."""
        return usage_of(self.process.pid)

    async def kill(self) -> None:
        """As the kernel does when memory runs out."""
        with suppress(ProcessLookupError):
            self.process.send_signal(signal.SIGKILL)
        await self.process.wait()


def usage_of(pid: int) -> Usage | None:
    try:
        # The name of the program, which may hold spaces, ends at the last bracket.
        times = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
        rollup = Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()
    except OSError:
        return None
    kilobytes = sum(int(line.split()[1]) for line in rollup if line.startswith("Private_"))
    return Usage((int(times[11]) + int(times[12])) / _TICKS, kilobytes * 1024)


@asynccontextmanager
async def serving(
    settings: Settings, url: str, *arguments: str, command: str = "serve", **sections: Any
) -> AsyncIterator[Service]:
    """A process on the database at ``url`` with the demo model and ``sections`` of config.yaml, until the block ends.

    Raises DatabaseError when it does not start.
    """
    folder = Path(tempfile.mkdtemp(dir=settings.data_dir))
    config = {**_config(settings), **sections}
    (folder / "config.yaml").write_text(json.dumps(config))
    port = ("--port", "0") if command == "serve" else ()
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        *("-m", "app", command, "--config", str(folder / "config.yaml"), "--data-dir", str(folder)),
        *(*port, *arguments),
        cwd=_ROOT,
        env=_environ(url),
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.DEVNULL,
    )
    try:
        ready = await asyncio.wait_for(_ready(process), _READY_SECONDS)
        address = urlsplit(ready)
        yield Service(process, address.hostname or "", address.port or 0)
    except TimeoutError:
        raise DatabaseError(f"The service was not ready within {_READY_SECONDS:g} s") from None
    finally:
        await _stopped(process)


def _config(settings: Settings) -> dict[str, Any]:
    """What the defaults are, but for a model that answers at once."""
    demo = {"name": "demo", "use": "app.chat_models.demo:DemoChatModel", "token_delay_s": 0}
    return {
        "models": [demo],
        "checkpoint_mode": settings.checkpoint_mode,
        "logging": {"level": "error"},
    }


def _environ(url: str) -> Mapping[str, str]:
    kept = {name: value for name, value in os.environ.items() if not name.startswith(_FOREIGN)}
    # A URL, whatever form it has here: that is what the configuration takes.
    parts = {name: str(value) for name, value in conninfo_to_dict(url).items() if value is not None}
    address = f"postgresql:///?{urlencode(parts, quote_via=quote)}"
    return {**kept, "DATABASE_URL": address, "PYTHONUNBUFFERED": "1"}


async def _ready(process: asyncio.subprocess.Process) -> str:
    """The address that it says it is ready at."""
    assert process.stdout
    while line := (await process.stdout.readline()).decode():
        if " is ready" in line:
            return line.split()[-1] if "://" in line else ""
    raise DatabaseError(f"The service ended with status {await process.wait()} before it was ready")


async def _stopped(process: asyncio.subprocess.Process) -> None:
    if process.returncode is not None:
        return
    process.send_signal(signal.SIGTERM)
    try:
        await asyncio.wait_for(process.wait(), _STOP_SECONDS)
    except TimeoutError:
        process.kill()
        await process.wait()
