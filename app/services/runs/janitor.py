"""Mends what dead processes left behind, so that no thread stays busy."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Sequence

from app.persistence.cancellation import cancelled
from app.persistence.outage import is_outage, one_line
from app.persistence.queue import RunQueue
from app.persistence.runs import RunStore

Chore = Callable[[], Awaitable[None]]

log = logging.getLogger(__name__)


class Janitor:
    """Every ``period_s`` seconds: returns the runs of dead workers to the queue, and queues active runs again whose job
    is gone. Then it does its other ``chores``. Any number of processes may do it at once."""

    def __init__(
        self, runs: RunStore, queue: RunQueue, period_s: float, chores: Sequence[Chore] = ()
    ) -> None:
        self._runs = runs
        self._queue = queue
        self._period_s = period_s
        self._chores = tuple(chores)
        self._task: asyncio.Task[None] | None = None

    def start(self) -> None:
        self._task = asyncio.create_task(self._sweep_for_ever(), name="janitor")

    async def stop(self) -> None:
        if self._task:
            await cancelled(self._task)

    async def sweep(self) -> None:
        await self._queue.return_abandoned()
        await self._queue.return_stalled()
        for run in await self._runs.orphans(self._period_s):
            if await self._queue.requeue(run.run_id, run.job_id):
                log.warning("run %s of thread %s had no job; it is queued again", run.run_id, run.thread_id)
        for chore in self._chores:
            await chore()

    async def _sweep_for_ever(self) -> None:
        while True:
            try:
                await self.sweep()
            except Exception as error:
                # Whatever stopped this sweep, the next one is needed.
                log.warning(
                    "cannot look for abandoned runs: %s", one_line(error), exc_info=not is_outage(error)
                )
            await asyncio.sleep(self._period_s)
