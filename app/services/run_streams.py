"""Following a run's events from any replica, from any point on."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

from app.persistence.events import TERMINAL_EVENT, Event, EventHub, EventStore
from app.persistence.runs import RunStore


class RunStreams:
    """Reads what executing runs write. ``closing`` is set when this process goes down: streams end then, and clients
    go on elsewhere from the last event they saw."""

    def __init__(
        self,
        runs: RunStore,
        events: EventStore,
        hub: EventHub,
        closing: asyncio.Event,
        heartbeat_s: float,
    ) -> None:
        self._runs = runs
        self._events = events
        self._hub = hub
        self._closing = closing
        self._heartbeat_s = heartbeat_s

    async def follow(self, run_id: str, after: int = 0) -> AsyncIterator[Event | None]:
        """The run's events with ``seq > after`` until its ``end``. None means nothing happened for a heartbeat."""
        over = False
        async with self._hub.watch(run_id) as news:
            while not self._closing.is_set():
                news.clear()
                events = await self._events.read(run_id, after)
                for event in events:
                    yield event
                    after = event.seq
                    if event.event == TERMINAL_EVENT:
                        return
                if events:
                    continue
                if over:
                    return
                # Asked only when there is nothing new; then read once more, since ``end`` may just have come.
                over = await self._is_over(run_id)
                if not over and not await self._wait(news):
                    yield None

    async def finished(self, run_id: str) -> AsyncIterator[None]:
        """Yields at each heartbeat until the run has ended."""
        async for event in self.follow(run_id, await self._events.last_seq(run_id) - 1):
            if event is None:
                yield None

    async def _is_over(self, run_id: str) -> bool:
        run = await self._runs.find(run_id)
        return run is None or not run.active

    async def _wait(self, news: asyncio.Event) -> bool:
        """Whether there was news before the heartbeat was due."""
        try:
            async with asyncio.timeout(self._heartbeat_s):
                await news.wait()
        except TimeoutError:
            return False
        return True
