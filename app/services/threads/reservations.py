"""The reservation: while a thread is held, its holder is the one writer."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import NoReturn, assert_never

from app.errors import NotFound, ThreadBusy
from app.persistence.threads import Refusal, ThreadStore
from app.services.ids import new_id

_log = logging.getLogger(__name__)
_TTL_SECONDS = 30.0


class Held:
    """A reservation that is being held."""

    def __init__(self, store: ThreadStore, thread_id: str, ttl_s: float) -> None:
        self._store = store
        self.thread_id = thread_id
        self.holder = new_id()
        self.ttl_s = ttl_s

    async def confirm(self) -> None:
        """To be called right before a write: holds the thread for the full time again.

        Raises ThreadBusy when the reservation ran out, because this process stood still for too long.
        """
        if not await self._store.extend(self.thread_id, self.holder, self.ttl_s):
            raise ThreadBusy(f"Thread {self.thread_id} was taken over by another writer; nothing was written")

    async def keep(self) -> None:
        """Hold the thread until cancelled. A failure is not the end: ``confirm`` has the last word."""
        while True:
            await asyncio.sleep(self.ttl_s / 3)
            try:
                await self.confirm()
            except Exception as error:  # noqa: BLE001 - the next beat may succeed, whatever stopped this one
                _log.warning("Cannot hold thread %s: %s", self.thread_id, error)


class Reservations:
    """Hands out reservations. ``ttl_s`` is for how many seconds a crashed holder blocks a thread."""

    def __init__(self, store: ThreadStore, ttl_s: float = _TTL_SECONDS) -> None:
        self._store = store
        self._ttl_s = ttl_s

    def held(self, thread_id: str) -> Held:
        """A holder that is not one yet: for a thread that is reserved in the moment it is made."""
        return Held(self._store, thread_id, self._ttl_s)

    @asynccontextmanager
    async def hold(self, owner: str, thread_id: str) -> AsyncIterator[Held]:
        """Hold the thread for as long as the block runs.

        Raises NotFound, or ThreadBusy while a run is pending or running or somebody else holds the thread.
        """
        held = self.held(thread_id)
        if refusal := await self._store.reserve(thread_id, owner, held.holder, self._ttl_s):
            refuse(thread_id, refusal)
        beat = asyncio.create_task(held.keep(), name=f"hold {thread_id}")
        try:
            yield held
        finally:
            beat.cancel()
            # Even when the block is cancelled: else the thread stays closed until the time runs out.
            await asyncio.shield(self._store.release(thread_id, held.holder))


def refuse(thread_id: str, refusal: Refusal) -> NoReturn:
    """Raise the error that a refusal of the store means."""
    match refusal:
        case "missing":
            raise NotFound(f"There is no thread {thread_id}")
        case "active_run":
            raise ThreadBusy(f"Thread {thread_id} has a run that is pending or running")
        case "reserved":
            raise ThreadBusy(
                f"Thread {thread_id} is being written to: a compaction or a state update is at work"
            )
        case _:
            assert_never(refusal)
