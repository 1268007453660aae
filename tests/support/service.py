"""The service as its users run it: a process started by ``python -m app``, spoken to over HTTP."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx
import yaml
from langgraph_sdk import get_client
from langgraph_sdk.client import LangGraphClient

READY_SECONDS = 90
STOP_SECONDS = 20
DEMO_MODEL = {"name": "demo", "use": "app.chat_models.demo:DemoChatModel", "token_delay_s": 0}
FAST_RUNS = {"stalled_after_s": 2, "concurrency": 8}


def config(**sections: Any) -> dict[str, Any]:
    """A config with the demo model, and short times where a test would have to wait for them.

    Without the date: the messages of a thread are those that a test put into it, unless it is about just that.
    """
    given = {"models": [DEMO_MODEL], "runs": FAST_RUNS, "dynamic_context": {"enabled": False}}
    return {**given, "logging": {"level": "info"}, **sections}


@dataclass
class Process:
    """A started process of the service. ``url`` is empty for a worker; ``output`` is what it printed so far."""

    process: asyncio.subprocess.Process
    url: str = ""
    output: list[str] = field(default_factory=list)

    @property
    def api(self) -> str:
        return f"{self.url}/api"

    def client(self) -> LangGraphClient:
        """The official client, pointed at this process."""
        return get_client(url=self.api)

    def http(self) -> httpx.AsyncClient:
        return httpx.AsyncClient(base_url=self.api, timeout=60)

    def kill(self) -> None:
        self.process.send_signal(signal.SIGKILL)

    async def stop(self) -> int:
        """SIGTERM, and the exit status. A process that does not stop in time is killed and fails the test."""
        if self.process.returncode is None:
            self.process.send_signal(signal.SIGTERM)
        try:
            async with asyncio.timeout(STOP_SECONDS):
                return await self.process.wait()
        except TimeoutError:
            self.kill()
            await self.process.wait()
            raise AssertionError(f"did not stop within {STOP_SECONDS} s:\n{''.join(self.output)}") from None

    async def _watch(self, ready: asyncio.Future[str]) -> None:
        assert self.process.stdout
        while line := (await self.process.stdout.readline()).decode():
            self.output.append(line)
            if " is ready" in line and not ready.done():
                ready.set_result(line.rpartition(" ")[2].strip())
        if not ready.done():
            ready.set_exception(AssertionError(f"ended before it was ready:\n{''.join(self.output)}"))


@asynccontextmanager
async def running(
    folder: Path,
    settings: Mapping[str, Any],
    *arguments: str,
    command: str = "serve",
    environ: Mapping[str, str] | None = None,
    database_url: str | None = None,
) -> AsyncIterator[Process]:
    """Start a process, wait until it says that it is ready, stop it at the end (also when a test killed it).

    ``folder`` holds its config and data. Without ``database_url`` it runs the embedded server.
    """
    path = folder / "config.yaml"
    path.write_text(yaml.safe_dump(dict(settings)))
    given = [*arguments, *(("--port", "0") if command == "serve" and "--port" not in arguments else ())]
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        *("-m", "app", command, "--config", str(path), "--data-dir", str(folder / "data"), *given),
        cwd=Path(__file__).parents[2],
        env=_environ(environ, database_url),
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.STDOUT,
    )
    started = Process(process)
    ready: asyncio.Future[str] = asyncio.get_running_loop().create_future()
    watcher = asyncio.create_task(started._watch(ready))
    try:
        async with asyncio.timeout(READY_SECONDS):
            answer = await ready
        started.url = answer if answer.startswith("http") else ""
        yield started
    finally:
        if process.returncode is None:
            await started.stop()
        await watcher


def _environ(given: Mapping[str, str] | None, database_url: str | None) -> dict[str, str]:
    kept = {
        name: value
        for name, value in os.environ.items()
        if not name.startswith(("THREADKEEP_", "LANG", "OPENAI_")) and name != "DATABASE_URL"
    }
    database = {"DATABASE_URL": database_url} if database_url else {}
    return {**kept, **database, "PYTHONUNBUFFERED": "1", **(given or {})}
