"""Retention: what has been left alone for long is pruned or removed, as far as the configuration asks for it."""

from __future__ import annotations

import asyncio
import logging

from app.config import RetentionSettings
from app.persistence.cancellation import cancelled
from app.persistence.outage import is_outage, one_line
from app.persistence.pruning import PruneStore
from app.persistence.retention import RetentionStore
from app.services.upkeep.erasure import Erasure
from app.services.upkeep.pruning import Pruning

_DAY_SECONDS = 86_400.0

log = logging.getLogger(__name__)


class Retention:
    """Looks every ``interval_s`` seconds. Any number of processes may: each thread is worked on by one at a time."""

    def __init__(
        self,
        settings: RetentionSettings,
        store: RetentionStore,
        erasure: Erasure,
        pruning: Pruning,
        checkpoints: PruneStore,
    ) -> None:
        self._settings = settings
        self._store = store
        self._erasure = erasure
        self._pruning = pruning
        self._checkpoints = checkpoints
        self._task: asyncio.Task[None] | None = None

    def start(self) -> None:
        """Does nothing when nothing is to be removed."""
        if self._settings.wanted:
            self._task = asyncio.create_task(self._for_ever(), name="retention")

    async def stop(self) -> None:
        if self._task:
            await cancelled(self._task)

    async def sweep(self) -> None:
        """Once: threads first, since what goes with them need not be pruned."""
        settings = self._settings
        if settings.delete_threads_after_days is not None:
            erased = await self._erasure.erase_older_than(settings.delete_threads_after_days * _DAY_SECONDS)
            if erased.threads:
                log.info("%d threads were removed by their age", len(erased.threads))
        if settings.prune_checkpoints_after_days is not None:
            await self._prune(settings.prune_checkpoints_after_days * _DAY_SECONDS)
        if settings.delete_events_after_days is not None:
            removed = await self._checkpoints.remove_events(settings.delete_events_after_days * _DAY_SECONDS)
            if removed:
                log.info("%d events of finished runs were removed by their age", removed)

    async def _prune(self, age_s: float) -> None:
        for thread in await self._store.prunable(age_s):
            done = await self._pruning.prune_one(thread.owner, thread.thread_id, "keep_latest")
            if isinstance(done, int) and done:
                log.info("thread %s was pruned by its age: %d checkpoints", thread.thread_id, done)

    async def _for_ever(self) -> None:
        while True:
            try:
                await self.sweep()
            except Exception as error:
                # Whatever stopped this sweep, the next one is needed.
                log.warning("cannot remove what is old: %s", one_line(error), exc_info=not is_outage(error))
            await asyncio.sleep(self._settings.interval_s)
