"""Two replicas and a worker on one database; the worker can be killed and has a successor then."""

from __future__ import annotations

import asyncio
import itertools
import time
from collections.abc import AsyncIterator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx

from app.persistence.database import connect
from tests.soak.recorded import RECORD
from tests.support.rig import SMALL
from tests.support.service import DEMO_MODEL, Process, config, running

GRAPH = "recorded"
_EXECUTES = b"SELECT 1 FROM runs WHERE status = 'running' AND worker LIKE %s LIMIT 1"


@dataclass
class Fleet:
    """``killed`` has the moment (of the machine's clock) at which each process died."""

    folder: Path
    database_url: str
    stalled_after_s: float
    replicas: list[httpx.AsyncClient] = field(default_factory=list)
    processes: list[Process] = field(default_factory=list)
    killed: dict[int, float] = field(default_factory=dict)
    _stack: AsyncExitStack = field(default_factory=AsyncExitStack)
    _turn: asyncio.Lock = field(default_factory=asyncio.Lock)

    @property
    def record(self) -> Path:
        return self.folder / "record"

    async def start(self) -> None:
        # One after the other: both would migrate.
        for _ in range(2):
            process = await self._start("serve")
            self.replicas.append(await self._stack.enter_async_context(process.http()))
        await self._start("worker")

    async def kill_worker(self) -> None:
        """``kill -9``, and another one takes its place."""
        async with self._turn:
            worker = self.processes[-1]
            await self._at_work(worker)
            worker.kill()
            await worker.process.wait()
            self.killed[worker.process.pid] = time.clock_gettime(time.CLOCK_MONOTONIC)
            await self._start("worker")

    async def _at_work(self, worker: Process) -> None:
        """Wait until the process executes a run; not for long, since there may be none left."""
        async with await connect(self.database_url) as database:
            for _ in range(200):
                row = await (await database.execute(_EXECUTES, (f"%:{worker.process.pid}",))).fetchone()
                if row:
                    return
                await asyncio.sleep(0.02)

    async def close(self) -> None:
        await self._stack.aclose()

    def said(self, needle: str) -> list[str]:
        """Lines of all logs with this in them."""
        return [line for process in self.processes for line in process.output if needle in line]

    async def _start(self, command: str) -> Process:
        own = self.folder / f"{command}{len(self.processes)}"
        own.mkdir()
        starting = running(
            own,
            self._settings(),
            command=command,
            environ={RECORD: str(self.record)},
            database_url=self.database_url,
        )
        self.processes.append(await self._stack.enter_async_context(starting))
        return self.processes[-1]

    def _settings(self) -> dict[str, Any]:
        return config(
            graphs={GRAPH: f"{Path(__file__).parent / 'recorded.py'}:agent"},
            summarization=SMALL,
            title={"enabled": False},
            # Long enough for others to come in between.
            models=[{**DEMO_MODEL, "summary_delay_s": 0.5}],
            runs={"stalled_after_s": self.stalled_after_s, "concurrency": 6, "max_attempts": 20},
        )


@asynccontextmanager
async def fleet(folder: Path, database_url: str, stalled_after_s: float) -> AsyncIterator[Fleet]:
    started = Fleet(folder, database_url, stalled_after_s)
    try:
        await started.start()
        yield started
    finally:
        await started.close()


@dataclass(frozen=True, slots=True)
class Span:
    """A model call of a run: from when to when, on the machine's clock."""

    thread: str
    run: str
    attempt: int
    begin: float
    end: float


def overlapping(spans: Sequence[Span]) -> list[tuple[Span, Span]]:
    """Pairs of model calls on one thread that were at work at the same time."""
    found = []
    for thread in {span.thread for span in spans}:
        ordered = sorted((span for span in spans if span.thread == thread), key=lambda span: span.begin)
        found += [(one, two) for one, two in itertools.pairwise(ordered) if two.begin < one.end]
    return found
