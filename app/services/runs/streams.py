"""Following a run's events from any replica, from any point on."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Sequence

from app.errors import ShuttingDown
from app.persistence.events import TERMINAL_EVENT, Event, EventHub, EventStore, end_of, may_go_on
from app.persistence.outage import PATIENCE_SECONDS, PAUSE_SECONDS, is_outage, through_outage
from app.persistence.runs import RunStore
from app.services.runs.patience import unbroken

# News is announced, and a lost announcer is noticed. Streams that are idle for long look for themselves all the same.
LOOK_SECONDS = 30.0
# As long as a run usually takes to begin.
NEW_SECONDS = 0.05


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
        self._away_since: float | None = None

    @property
    def closing(self) -> bool:
        return self._closing.is_set()

    async def follow(
        self, run_id: str, after: int = 0, *, hidden: bool = False
    ) -> AsyncIterator[Event | None]:
        """The run's events with ``seq > after`` until its ``end``. None means nothing happened for a heartbeat.

        ``hidden``: also those that only thread streams show. Raises ShuttingDown when this process goes down before
        the end.
        """
        async for page in self.pages(run_id, after, hidden=hidden):
            for event in page:
                yield event
            if not page:
                yield None

    async def pages(
        self, run_id: str, after: int = 0, *, hidden: bool = False, new: bool = False
    ) -> AsyncIterator[Sequence[Event]]:
        """As ``follow``, all that is there at a time; an empty page is a heartbeat. ``new``: the run was admitted just
        now, so that its first events are sooner announced than asked for."""
        over = False
        heard = time.monotonic()
        async with self._hub.watch(run_id) as news:
            if new:
                await self._wait(news, NEW_SECONDS)
            while True:
                self._refuse_closing()
                news.clear()
                if (events := news.take(after) or await self._read(run_id, after)) is None:
                    yield ()
                    continue
                after = events[-1].seq if events else after
                shown = [event for event in events if hidden or not event.hidden]
                if shown or time.monotonic() - heard > self._heartbeat_s:
                    # Without any there is news, but none for this reader.
                    yield shown
                    heard = time.monotonic()
                if (events and events[-1].event == TERMINAL_EVENT) or (over and not events):
                    return
                # Asked only when there is nothing new; then read once more, since ``end`` may just have come.
                over = over or (not events and not await self._is_active(run_id))
                if not (over or may_go_on(events)):
                    async for _ in self._silence(news):
                        yield ()
                        heard = time.monotonic()

    async def finished(self, run_id: str) -> AsyncIterator[None]:
        """Yields at each heartbeat until the run has ended. Raises ShuttingDown when this process goes down before."""
        async with self._hub.watch(end_of(run_id)) as news:
            while True:
                news.clear()
                if not await self._is_active(run_id):
                    return
                self._refuse_closing()
                async for _ in self._silence(news):
                    yield None

    async def _read(self, run_id: str, after: int) -> list[Event] | None:
        """None while the database is away, for no longer than anybody executes runs without it."""
        try:
            events = await unbroken(self._events.read(run_id, after))
        except Exception as error:
            if not is_outage(error) or self._away_for() > PATIENCE_SECONDS:
                raise
            await asyncio.sleep(PAUSE_SECONDS)
            return None
        self._away_since = None
        return events

    async def _is_active(self, run_id: str) -> bool:
        return await unbroken(through_outage(lambda: self._runs.is_active(run_id)))

    def _away_for(self) -> float:
        if self._away_since is None:
            self._away_since = time.monotonic()
        return time.monotonic() - self._away_since

    def _refuse_closing(self) -> None:
        if self._closing.is_set():
            raise ShuttingDown("The service is going down; go on at another one, or here in a moment")

    async def _silence(self, news: asyncio.Event) -> AsyncIterator[None]:
        """Yields at each heartbeat until there is news, or until it is time to look for some all the same."""
        look_at = time.monotonic() + LOOK_SECONDS
        while not await self._wait(news, self._heartbeat_s) and time.monotonic() < look_at:
            yield None

    async def _wait(self, news: asyncio.Event, seconds: float) -> bool:
        """Whether there was news in time."""
        try:
            async with asyncio.timeout(seconds):
                await news.wait()
        except TimeoutError:
            return False
        return True
