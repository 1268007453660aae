"""Erasure: what was said is nowhere any more, neither in a table nor in a file."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from app.errors import NotFound, ThreadBusy
from app.persistence.retention import Owned, RetentionStore
from app.services.threads.service import ThreadService


@dataclass(frozen=True, slots=True)
class Erased:
    """Ids of threads that are gone, and of those that were being written to: ask again for them."""

    threads: Sequence[str]
    busy: Sequence[str]


class Erasure:
    """For administrators: whose a thread is does not matter here. Runs under way are cancelled, and waited for."""

    def __init__(self, threads: ThreadService, store: RetentionStore) -> None:
        self._threads = threads
        self._store = store

    async def erase_thread(self, thread_id: str) -> Erased:
        """A thread with everything of it, and what was noted in it about its owner. Raises NotFound."""
        owner = await self._store.owner_of(thread_id)
        if owner is None:
            raise NotFound(f"There is no thread {thread_id}")
        return await self._erase([Owned(thread_id, owner)])

    async def erase_owner(self, owner: str) -> Erased:
        """All threads of an owner, and everything else that is kept for the owner: facts, items, assistants, keys."""
        erased = await self._erase(await self._store.of_owner(owner))
        if not erased.busy:
            await self._store.forget_owner(owner)
        return erased

    async def erase_older_than(self, seconds: float) -> Erased:
        """Idle threads on which nothing has happened for so long, with what was noted in them."""
        gone: list[str] = []
        while found := [old for old in await self._store.untouched(seconds) if old.thread_id not in gone]:
            erased = await self._erase(found, idle_only=True)
            gone += erased.threads
            if erased.busy:
                return Erased(gone, erased.busy)
        return Erased(gone, ())

    async def _erase(self, found: Sequence[Owned], *, idle_only: bool = False) -> Erased:
        gone, busy = [], []
        for thread in found:
            try:
                await self._threads.delete(thread.owner, thread.thread_id, idle_only=idle_only)
            except ThreadBusy:
                busy.append(thread.thread_id)
                continue
            except NotFound:
                # Somebody else was quicker.
                pass
            await self._store.forget_from_thread(thread.owner, thread.thread_id)
            gone.append(thread.thread_id)
        return Erased(gone, busy)
