"""Removes the threads of stateless runs."""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable

from app.errors import Conflict, NotFound
from app.persistence.temporary_threads import TemporaryThreadStore

log = logging.getLogger(__name__)


class StatelessThreads:
    """``delete`` (owner, thread id) removes a thread with everything of it."""

    def __init__(
        self, store: TemporaryThreadStore, delete: Callable[[str, str], Awaitable[None]], grace_s: float
    ) -> None:
        self._store = store
        self._delete = delete
        self._grace_s = grace_s

    async def sweep(self) -> None:
        """Remove those whose run is over and whose client did not come back: for any number of processes, again and
        again, so that no crash leaves one for ever."""
        for thread_id, owner in await self._store.over(self._grace_s):
            await self.remove(owner, thread_id)

    async def remove(self, owner: str, thread_id: str) -> None:
        """The client has its answer. Somebody else may be removing the thread, or hold it: then that one, or the next
        sweep, does it."""
        try:
            await self._delete(owner, thread_id)
        except (NotFound, Conflict) as error:
            log.debug("thread %s of a stateless run is not removed now: %s", thread_id, error)
