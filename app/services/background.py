"""Work that outlives the request which began it."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import Any, TypeVar

from app.errors import ShuttingDown
from app.persistence.cancellation import cancelled

T = TypeVar("T")


class Background:
    """Keeps tasks alive until they are done, and waits for them when the process stops."""

    def __init__(self) -> None:
        self._tasks: set[asyncio.Task[Any]] = set()

    def start(self, work: Coroutine[Any, Any, T]) -> asyncio.Task[T]:
        task = asyncio.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._done)
        return task

    async def finish(self, work: Coroutine[Any, Any, T]) -> T:
        """Await ``work``; if the waiting request is cut off, the work goes on.

        Raises ShuttingDown then, since nothing but a server that stops cuts requests off.
        """
        try:
            return await asyncio.shield(self.start(work))
        except asyncio.CancelledError:
            raise ShuttingDown(
                "This process is going down: what it was working on ends whole or is left undone; look again"
            ) from None

    async def stop(self, grace_s: float) -> None:
        """Let what is under way finish within ``grace_s`` seconds, then cancel it."""
        if not self._tasks:
            return
        _, late = await asyncio.wait(self._tasks, timeout=grace_s)
        await cancelled(*late)

    def _done(self, task: asyncio.Task[Any]) -> None:
        self._tasks.discard(task)
        if not task.cancelled():
            # Seen here, so that a failure nobody waits for any more is not reported as "never retrieved".
            task.exception()
