"""Following a thread across its runs, from any replica, from any point on, for as long as a client wants."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Collection
from dataclasses import dataclass
from typing import Any, Literal, assert_never

from app.errors import NotFound, ShuttingDown
from app.persistence.events import TERMINAL_EVENT, EventHub, stream_of
from app.persistence.outage import through_outage
from app.persistence.thread_stream import Begun, NextStep, ThreadStreamStore, Written
from app.serialization import dumps, state_to_json
from app.services.runs.patience import unbroken
from app.services.runs.streams import RunStreams
from app.services.threads.state import Place, StateService

ThreadStreamMode = Literal["run_modes", "lifecycle", "state_update"]
METADATA = "metadata"
STATE_UPDATE = "state_update"
# Behind every event of a run.
_OVER = 10**18 - 1


@dataclass(frozen=True, slots=True, order=True)
class Cursor:
    """A place in a thread's stream: the run or state write at ``position``, and how far into it."""

    position: int = 0
    seq: int = 0

    def __str__(self) -> str:
        return f"{self.position}-{self.seq}"


@dataclass(frozen=True, slots=True)
class ThreadEvent:
    """One event of a thread's stream. Ids are unique and ordered within the thread; ``data`` is one-line JSON."""

    cursor: Cursor
    event: str
    data: str


class ThreadStreams:
    """Reads what runs and state writes leave. An idle stream waits for a notification and asks nobody anything."""

    def __init__(
        self,
        store: ThreadStreamStore,
        runs: RunStreams,
        states: StateService,
        hub: EventHub,
        closing: asyncio.Event,
        heartbeat_s: float,
    ) -> None:
        self._store = store
        self._runs = runs
        self._states = states
        self._hub = hub
        self._closing = closing
        self._heartbeat_s = heartbeat_s

    async def follow(
        self, owner: str, thread_id: str, modes: Collection[ThreadStreamMode], after: Cursor | None = None
    ) -> AsyncIterator[ThreadEvent | None]:
        """The thread's events behind ``after``; without it those of the run that is under way, and what comes then.
        None means nothing happened for a heartbeat. Ends when the thread is gone.

        Raises ShuttingDown when this process goes down.
        """
        async with self._hub.watch(stream_of(thread_id)) as news:
            at = after or await self._start(thread_id)
            while at is not None:
                self._refuse_closing()
                news.clear()
                step = await self._next(thread_id, at, modes)
                match step:
                    case Begun():
                        seen = at.seq if at.position == step.position else 0
                        async for event in self._run(step, seen, modes):
                            yield event
                        at = Cursor(step.position, _OVER)
                    case Written():
                        at = Cursor(step.position, 0)
                        if written := await self._written(owner, thread_id, step):
                            yield written
                    case None:
                        if await through_outage(lambda: self._store.now(thread_id)) is None:
                            return
                        while not await self._wait(news):
                            yield None
                    case _:
                        assert_never(step)

    async def _start(self, thread_id: str) -> Cursor | None:
        newest = await unbroken(through_outage(lambda: self._store.now(thread_id)))
        if newest is None:
            return None
        position, active = newest
        return Cursor(position, 0 if active else _OVER)

    async def _next(
        self, thread_id: str, at: Cursor, modes: Collection[ThreadStreamMode]
    ) -> Begun | Written | None:
        wanted = NextStep(
            thread_id,
            after=at.position,
            unfinished=at.seq < _OVER,
            runs=not {"run_modes", "lifecycle"}.isdisjoint(modes),
            writes="state_update" in modes,
        )
        return await unbroken(through_outage(lambda: self._store.next(wanted)))

    async def _run(
        self, run: Begun, seen: int, modes: Collection[ThreadStreamMode]
    ) -> AsyncIterator[ThreadEvent | None]:
        under_way = False
        async for event in self._runs.follow(run.run_id, seen):
            if event is None:
                yield None
                continue
            if event.hidden:
                continue
            at = Cursor(run.position, event.seq)
            under_way = event.event != TERMINAL_EVENT
            if not under_way:
                yield _done(run, at)
            elif "run_modes" in modes or event.event == METADATA:
                yield ThreadEvent(at, event.event, event.data)
        if under_way:
            # It was taken back, and its last event with it.
            yield _done(run, Cursor(run.position, _OVER))

    async def _written(self, owner: str, thread_id: str, write: Written) -> ThreadEvent | None:
        try:
            snapshot = await self._states.read(owner, thread_id, Place(write.checkpoint_id))
        except NotFound:
            return None
        data: dict[str, Any] = {"thread_id": thread_id, "state": state_to_json(snapshot)}
        return ThreadEvent(Cursor(write.position, 0), STATE_UPDATE, dumps(data).decode())

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


def _done(run: Begun, at: Cursor) -> ThreadEvent:
    return ThreadEvent(at, METADATA, dumps({"status": "run_done", "run_id": run.run_id}).decode())
