"""Following a thread (v2) from any replica: what its runs say, from any point on, across runs."""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from collections.abc import AsyncGenerator
from contextlib import aclosing
from typing import Any

from app.errors import NotFound, ShuttingDown
from app.persistence.events import TERMINAL_EVENT, Event, EventHub, EventStore, stream_of
from app.persistence.outage import through_outage
from app.persistence.thread_events import PlacedRun, RunEnd, ThreadEventStore
from app.services.runs.patience import unbroken
from app.services.runs.streams import RunStreams
from app.services.thread_events.filter import WATCHED, Subscription
from app.services.thread_events.frames import (
    Ended,
    Frame,
    Outcome,
    RunFrames,
    StreamedRun,
    last_seq,
    position_of,
)
from app.services.thread_events.tree import tree_of

# A client that starts a run and only then opens the stream that tells it of the end still has to hear of it.
JUST_ENDED_S = 10.0
_KEPT_TOLD = 1_000
_OUTCOMES: dict[str, Outcome] = {"success": "completed", "interrupted": "interrupted"}


class ThreadEvents:
    """Streams of threads. ``closing`` is set when this process goes down: streams end then, and clients go on
    elsewhere."""

    def __init__(
        self,
        store: ThreadEventStore,
        events: EventStore,
        runs: RunStreams,
        hub: EventHub,
        closing: asyncio.Event,
        heartbeat_s: float,
    ) -> None:
        self._store = store
        self._events = events
        self._runs = runs
        self._hub = hub
        self._closing = closing
        self._heartbeat_s = heartbeat_s
        self._told: OrderedDict[str, None] = OrderedDict()

    async def follow(
        self, thread_id: str, wanted: Subscription, since: int | None = None
    ) -> AsyncGenerator[Frame | None]:
        """What is wanted of the thread's runs. None means nothing happened for a heartbeat.

        With ``since`` all frames with a higher ``seq``; without it the run that goes on, or else the newest one, and
        then whatever comes, until the thread is deleted. Raises NotFound when there is no such thread, ShuttingDown
        when this process goes down.
        """
        if not await self._exists(thread_id):
            raise NotFound(f"There is no thread {thread_id}")
        async with self._hub.watch(stream_of(thread_id)) as news:
            position = await self._beginning(thread_id, wanted, since)
            while True:
                self._refuse_closing()
                news.clear()
                if run := await self._next(thread_id, position):
                    async with aclosing(self._frames(run, wanted)) as frames:
                        async for frame in frames:
                            if frame is None or (wanted.wants(frame) and frame.seq > (since or 0)):
                                yield frame
                    position = run.position + 1
                    continue
                while not await self._wait(news):
                    yield None
                    if not await self._exists(thread_id):
                        return

    async def applied_through(self, thread_id: str) -> int:
        """The highest ``seq`` that any frame of the thread can have by now; 0 when no run was begun yet."""
        last = await self._store.last(thread_id)
        return last_seq(*last) if last else 0

    async def tree(self, thread_id: str, run_id: str | None) -> dict[str, Any] | None:
        """The graphs of a run, or of the newest one. None when the thread has none such."""
        run = await self._store.newest(thread_id, run_id)
        return tree_of([frame async for frame in self._so_far(run)], run.graph_name) if run else None

    async def _so_far(self, run: PlacedRun) -> AsyncGenerator[Frame]:
        made = _made(run, WATCHED)
        after = 0
        while events := await self._events.read(run.run_id, after):
            for event in events:
                after = event.seq
                if event.event == TERMINAL_EVENT:
                    frames = made.end(_ended(await self._store.end_of(run.run_id)), event)
                else:
                    frames = made.frames(event)
                for frame in frames:
                    yield frame

    async def _beginning(self, thread_id: str, wanted: Subscription, since: int | None) -> int:
        if since is not None:
            return position_of(since)
        newest = await unbroken(through_outage(lambda: self._store.newest(thread_id)))
        if newest is None:
            return 0
        return newest.position + (1 if self._is_old_news(newest, wanted) else 0)

    def _is_old_news(self, run: PlacedRun, wanted: Subscription) -> bool:
        """Whether its end would be taken for the end of what the client waits for: another run is to come, or the
        client only watches. Not old: one that asked and waits for the answer, and one that has just ended without
        anybody being told."""
        if run.ended_s is None or run.followed:
            return run.ended_s is not None
        if run.waiting or not wanted.watches:
            return False
        return run.ended_s > JUST_ENDED_S or not run.recorded or run.run_id in self._told

    async def _frames(self, run: PlacedRun, wanted: Subscription) -> AsyncGenerator[Frame | None]:
        made = _made(run, wanted)
        last: Event | None = None
        async for event in self._runs.follow(run.run_id, hidden=True):
            if event is None:
                yield None
            elif event.event == TERMINAL_EVENT:
                last = event
            else:
                for frame in made.frames(event):
                    yield frame
        end = await unbroken(through_outage(lambda: self._store.end_of(run.run_id)))
        for frame in made.end(_ended(end), last):
            yield frame
        self._remember(run.run_id)

    def _remember(self, run_id: str) -> None:
        self._told[run_id] = None
        while len(self._told) > _KEPT_TOLD:
            self._told.popitem(last=False)

    async def _next(self, thread_id: str, position: int) -> PlacedRun | None:
        return await unbroken(through_outage(lambda: self._store.next(thread_id, position)))

    async def _exists(self, thread_id: str) -> bool:
        return await unbroken(through_outage(lambda: self._store.exists(thread_id)))

    def _refuse_closing(self) -> None:
        if self._closing.is_set():
            raise ShuttingDown("The service is going down; go on at another one, or here in a moment")

    async def _wait(self, news: asyncio.Event) -> bool:
        """Whether there was news before the heartbeat was due."""
        try:
            async with asyncio.timeout(self._heartbeat_s):
                await news.wait()
        except TimeoutError:
            return False
        return True


def _made(run: PlacedRun, wanted: Subscription) -> RunFrames:
    return RunFrames(
        StreamedRun(run.run_id, run.position, run.graph_name, _answered(run)), wanted.has_channel
    )


def _answered(run: PlacedRun) -> list[str]:
    """The interrupts that a run answers by their ids."""
    return list(run.resume) if isinstance(run.resume, dict) and run.recorded else []


def _ended(end: RunEnd | None) -> Ended:
    if end is None:
        return Ended("interrupted")
    waiting = [interrupt for task in end.interrupts.values() for interrupt in task]
    error = (end.error or {}).get("message")
    return Ended(_OUTCOMES.get(end.status, "failed"), error, waiting)
