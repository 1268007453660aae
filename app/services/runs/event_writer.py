"""Writes the stream events of one executing run in batches."""

from __future__ import annotations

import asyncio
import time
from contextlib import suppress
from typing import Any

from app.persistence.events import Event, EventStore
from app.persistence.outage import through_outage
from app.persistence.runs import RunLost
from app.serialization import dumps
from app.services.runs.patience import undisturbed

# The first event goes out at once, and so does the first token; later ones in batches: a token a transaction would cost
# more than the token.
BATCH_SECONDS = 0.02
# A busy database, or process, gets fewer and larger ones: the pause is so many times as long as the last batch took to
# write, up to this.
PAUSES = 3
LONGEST_PAUSE_SECONDS = 0.1
_TOKENS = "messages"
# A graph that produces faster than the database takes has to wait here.
MAX_BUFFERED = 5_000
MAX_BUFFERED_CHARACTERS = 4_000_000


class EventWriter:
    """An async context manager; ``put`` numbers the events from ``first_seq`` on. Leaving the block writes the rest."""

    def __init__(self, store: EventStore, run_id: str, attempt: int, first_seq: int) -> None:
        self._store = store
        self._run_id = run_id
        self._attempt = attempt
        self._seq = first_seq
        self._buffer: list[Event] = []
        self._buffered = 0
        self._filled = asyncio.Event()
        self._hurry = asyncio.Event()
        self._spoke = False
        self._lock = asyncio.Lock()
        self._flusher: asyncio.Task[None] | None = None

    async def __aenter__(self) -> EventWriter:
        self._flusher = asyncio.create_task(self._flush_as_they_come(), name="event writer")
        return self

    async def __aexit__(self, *_: Any) -> None:
        # Whoever is impatient: what was produced is written, and nothing is left running.
        await undisturbed(self._close())

    async def put(self, name: str, data: Any) -> None:
        """Append an event. Raises RunLost when the run was taken over, and what the database raised, if anything."""
        if self._flusher and self._flusher.done():
            self._flusher.result()
        event = Event(self._seq, name, dumps(data).decode())
        self._buffer.append(event)
        self._buffered += len(event.data)
        self._seq += 1
        self._filled.set()
        if not self._spoke and name.startswith(_TOKENS):
            self._spoke = True
            self._hurry.set()
        if len(self._buffer) >= MAX_BUFFERED or self._buffered >= MAX_BUFFERED_CHARACTERS:
            await self.flush()

    async def flush(self) -> None:
        """Write what is buffered, through an outage of the database. Raises RunLost."""
        async with self._lock:
            self._filled.clear()
            # Taken out only when they are written: this may be cancelled at any moment.
            events = self._buffer[:]
            if events and not await through_outage(
                lambda: self._store.append(self._run_id, self._attempt, events)
            ):
                raise RunLost(self._run_id)
            del self._buffer[: len(events)]
            self._buffered = sum(len(event.data) for event in self._buffer)

    async def _flush_as_they_come(self) -> None:
        while True:
            await self._filled.wait()
            begun = time.monotonic()
            await self.flush()
            await self._pause(time.monotonic() - begun)

    async def _pause(self, took_s: float) -> None:
        """Until it is time for the next batch; the first token does not wait for it."""
        with suppress(TimeoutError):
            async with asyncio.timeout(min(max(BATCH_SECONDS, PAUSES * took_s), LONGEST_PAUSE_SECONDS)):
                await self._hurry.wait()
        self._hurry.clear()

    async def _close(self) -> None:
        if self._flusher:
            # Not in the midst of a write: a driver may turn that cancellation into something else.
            async with self._lock:
                self._flusher.cancel()
            await asyncio.gather(self._flusher, return_exceptions=True)
        await self.flush()
