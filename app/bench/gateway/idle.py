"""What streams cost on which nothing happens."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass

from app.bench.gateway.service import Service
from app.bench.gateway.visitor import QUESTION, Visitor

_SETTLING_SECONDS = 2.0
_HOUR = 3600


@dataclass(frozen=True, slots=True)
class IdleFigures:
    """Streams of one kind, all open at the same time. ``bytes_each`` is memory of the service's process, ``cpu_share``
    of one processor, less what the process takes without them; ``heartbeats`` are chunks that arrived meanwhile.
    Memory that earlier ones gave back is used again, so that the first kind to be measured shows most.
    """

    kind: str
    streams: int
    bytes_each: float
    cpu_share: float
    heartbeats: int


async def measure_idle(service: Service, streams: int, seconds: float) -> list[IdleFigures]:
    """Streams of threads that nobody runs, and of a run that is not to begin yet. Empty where the system does not tell
    what a process takes. Raises VisitError."""
    async with Visitor(service.host, service.port) as visitor:
        thread_id = await visitor.create_thread()
        body = {
            "assistant_id": "agent",
            "input": {"messages": [{"role": "user", "content": QUESTION}]},
            "after_seconds": _HOUR,
        }
        run = await visitor.call("POST", f"/threads/{thread_id}/runs", body)
        other_id = await visitor.create_thread()
    paths = {
        "/threads/{t}/stream": f"/threads/{other_id}/stream",
        "/threads/{t}/runs/{r}/stream": f"/threads/{thread_id}/runs/{run['run_id']}/stream",
    }
    figures = [await _measured(service, kind, path, streams, seconds) for kind, path in paths.items()]
    return [measured for measured in figures if measured]


async def _measured(
    service: Service, kind: str, path: str, streams: int, seconds: float
) -> IdleFigures | None:
    # What the first one of all needs, the others need no more.
    async with _open(service, path, 1):
        await asyncio.sleep(_SETTLING_SECONDS)
    without = await _share(service, seconds)
    before = service.usage()
    async with _open(service, path, streams) as heard:
        await asyncio.sleep(_SETTLING_SECONDS)
        after = service.usage()
        share = await _share(service, seconds)
        if before is None or after is None:
            return None
        grown = after.memory_bytes - before.memory_bytes
        return IdleFigures(kind, streams, max(0, grown) / streams, max(0.0, share - without), sum(heard))


async def _share(service: Service, seconds: float) -> float:
    before = service.usage()
    await asyncio.sleep(seconds)
    after = service.usage()
    return (after.cpu_s - before.cpu_s) / seconds if before and after else 0.0


@asynccontextmanager
async def _open(service: Service, path: str, streams: int) -> AsyncIterator[list[int]]:
    """Open streams, read as their clients would. Yields how much each has heard so far."""
    heard = [0] * streams
    opened = asyncio.Semaphore(0)

    async def follow(number: int, visitor: Visitor) -> None:
        async for _ in visitor.read("GET", path):
            if not heard[number]:
                opened.release()
            heard[number] += 1

    async with AsyncExitStack() as stack:
        visitors = [
            await stack.enter_async_context(Visitor(service.host, service.port)) for _ in range(streams)
        ]
        tasks = [asyncio.create_task(follow(number, visitor)) for number, visitor in enumerate(visitors)]
        try:
            for _ in tasks:
                await opened.acquire()
            yield heard
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
