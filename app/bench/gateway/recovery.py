"""How long it takes until runs go on when their database or their worker is gone."""

from __future__ import annotations

import asyncio
import re
import time
from collections.abc import Awaitable, Callable
from contextlib import AsyncExitStack
from dataclasses import dataclass, field
from itertools import pairwise

from app.bench.gateway.service import Service, serving
from app.bench.gateway.visitor import VisitError, Visitor
from app.config import Settings
from app.persistence.scratch import restart_server

# Fifteen seconds of tokens: still under way when another worker is there.
_SLOW = "/slow 300"
_STALLED_SECONDS = 5.0
_LONGEST_SECONDS = 120.0
_ID = re.compile(rb"^id: (\d+)$", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class RecoveryFigures:
    """``events_s``: from the loss until every stream had news again; ``answer_s``: until a request that needs the
    database was answered, None where that never stopped. ``lost``: streams that ended otherwise than with the run's
    end, or with numbers of events missing, twice, or out of order."""

    what: str
    streams: int
    events_s: float
    answer_s: float | None
    lost: int


@dataclass
class _Follower:
    """A client in the middle of a run."""

    visitor: Visitor
    thread_id: str
    ids: list[int] = field(default_factory=list)
    times: list[float] = field(default_factory=list)
    begun: asyncio.Event = field(default_factory=asyncio.Event)
    over: bool = False

    async def follow(self) -> None:
        async for piece in self.visitor.stream_run(self.thread_id, _SLOW):
            found = [int(number) for number in _ID.findall(piece)]
            self.ids += found
            self.times += [time.monotonic()] * len(found)
            if b"event: messages\n" in piece:
                self.begun.set()
            self.over = self.over or b"event: end\n" in piece

    def silent_after(self, moment: float) -> float:
        """Seconds until the first event that came after the longest pause since ``moment``."""
        later = [moment, *(at for at in self.times if at > moment)]
        pauses = [(after - before, after) for before, after in pairwise(later)]
        return max(pauses)[1] - moment if pauses else float("inf")

    @property
    def whole(self) -> bool:
        return self.over and self.ids == list(range(1, len(self.ids) + 1))


async def measure_recovery(settings: Settings, url: str, streams: int) -> list[RecoveryFigures]:
    """Restart the embedded PostgreSQL in the middle of runs, and kill a worker that executes some. Without an embedded
    server only the latter. Raises VisitError and DatabaseError."""
    figures = []
    async with serving(settings, url) as service:
        if measured := await _restarted(settings, service, streams):
            figures.append(measured)
    async with (
        serving(settings, url, "--no-worker") as gateway,
        serving(settings, url, command="worker", runs={"stalled_after_s": _STALLED_SECONDS}) as first,
        AsyncExitStack() as stack,
    ):

        async def lose() -> None:
            # Only now, so that all of the runs are at the first one.
            await stack.enter_async_context(
                serving(settings, url, command="worker", runs={"stalled_after_s": _STALLED_SECONDS})
            )
            await first.kill()

        what = f"a worker is killed (dead after {_STALLED_SECONDS:g} s of silence)"
        figures.append(await _survived(gateway, what, streams, lose))
    return figures


async def _restarted(settings: Settings, service: Service, streams: int) -> RecoveryFigures | None:
    if settings.database.url is not None:
        return None

    async def lose() -> None:
        await asyncio.to_thread(restart_server, settings.data_dir)

    return await _survived(service, "PostgreSQL is restarted", streams, lose, asks=True)


async def _survived(
    service: Service, what: str, streams: int, lose: Callable[[], Awaitable[None]], *, asks: bool = False
) -> RecoveryFigures:
    async with AsyncExitStack() as stack, asyncio.timeout(_LONGEST_SECONDS):
        followers = []
        for _ in range(streams):
            visitor = await stack.enter_async_context(Visitor(service.host, service.port))
            followers.append(_Follower(visitor, await visitor.create_thread()))
        tasks = [asyncio.create_task(follower.follow()) for follower in followers]
        for follower in followers:
            await follower.begun.wait()
        await lose()
        lost_at = time.monotonic()
        answer_s = await _answered(service, followers[0].thread_id) - lost_at if asks else None
        await asyncio.gather(*tasks, return_exceptions=True)
    return RecoveryFigures(
        what,
        streams,
        max(follower.silent_after(lost_at) for follower in followers),
        answer_s,
        sum(not follower.whole for follower in followers),
    )


async def _answered(service: Service, thread_id: str) -> float:
    """When a request was answered that needs the database."""
    while True:
        try:
            async with Visitor(service.host, service.port) as visitor:
                await visitor.call("GET", f"/threads/{thread_id}/state")
        except VisitError:
            await asyncio.sleep(0.05)
            continue
        return time.monotonic()
