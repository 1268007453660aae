"""Threads: create, read, find, change, delete."""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Literal

from app.errors import Conflict, NotFound
from app.persistence.threads import SortBy, SortOrder, Thread, ThreadFilter, ThreadStore
from app.ports import Workspaces
from app.services.ids import new_id
from app.services.threads.reservations import refuse

_log = logging.getLogger(__name__)

OnThread = Callable[[str], Awaitable[None]]


class ThreadService:
    """The use cases of threads. ``owner`` is whose threads a caller sees.

    ``cancel_runs`` ends the active runs of a thread and waits until none of them writes any more;
    ``delete_checkpoints`` removes its checkpoints.
    """

    def __init__(
        self, store: ThreadStore, workspaces: Workspaces, cancel_runs: OnThread, delete_checkpoints: OnThread
    ) -> None:
        self._store = store
        self._workspaces = workspaces
        self._cancel_runs = cancel_runs
        self._delete_checkpoints = delete_checkpoints

    async def create(
        self,
        owner: str,
        thread_id: str | None,
        metadata: Mapping[str, Any],
        if_exists: Literal["raise", "do_nothing"] = "raise",
        fill: OnThread | None = None,
    ) -> Thread:
        """A new thread, or the existing one with ``do_nothing``. Raises Conflict when the id is taken.

        ``fill`` gives a new thread its first state; when it raises, there is no thread.
        """
        chosen = thread_id or new_id()
        if created := await self._store.create(chosen, owner, metadata):
            return await self._filled(owner, chosen, fill) if fill else created
        existing = await self._store.get(chosen, owner) if if_exists == "do_nothing" else None
        if existing is None:
            raise Conflict(f"Thread {chosen} exists already, or is being deleted", code="thread_exists")
        return existing

    async def get(self, owner: str, thread_id: str) -> Thread:
        """Raises NotFound."""
        return _found(thread_id, await self._store.get(thread_id, owner))

    async def patch(self, owner: str, thread_id: str, metadata: Mapping[str, Any]) -> Thread:
        """Merge ``metadata`` into the thread's, key by key. Raises NotFound."""
        return _found(thread_id, await self._store.patch(thread_id, owner, metadata))

    async def search(
        self, wanted: ThreadFilter, *, limit: int, offset: int, sort_by: SortBy, sort_order: SortOrder
    ) -> tuple[list[Thread], int]:
        """One page of threads, and how many there are on all pages."""
        page = await self._store.search(
            wanted, limit=limit, offset=offset, sort_by=sort_by, sort_order=sort_order
        )
        return page, await self._store.count(wanted)

    async def count(self, wanted: ThreadFilter) -> int:
        return await self._store.count(wanted)

    async def delete(self, owner: str, thread_id: str, *, idle_only: bool = False) -> None:
        """Remove a thread and everything of it: runs, events, checkpoints, archive, records, workspace.

        Runs are cancelled. Nothing can start on the thread from the first step on; a crash in between is
        finished by the next delete or ``finish_deletions``. Raises NotFound, or ThreadBusy while a compaction
        or a state update holds the thread, with ``idle_only`` also while it has runs.
        """
        if refusal := await self._store.begin_deletion(thread_id, owner, idle_only=idle_only):
            refuse(thread_id, refusal)
        await self._remove(thread_id)

    async def finish_deletions(self) -> None:
        """Remove what a crash left of threads that were being deleted. For the start of the service."""
        for thread_id in await self._store.begun_deletions():
            _log.info("Finishing the deletion of thread %s", thread_id)
            try:
                await self._remove(thread_id)
            except Exception:  # noqa: BLE001 - one thread that cannot be removed must not keep the others
                _log.exception(
                    "Cannot finish the deletion of thread %s; the next start tries again", thread_id
                )

    async def _filled(self, owner: str, thread_id: str, fill: OnThread) -> Thread:
        try:
            await fill(thread_id)
        except BaseException:
            await self.delete(owner, thread_id)
            raise
        return await self.get(owner, thread_id)

    async def _remove(self, thread_id: str) -> None:
        # The row goes last: as long as it stands, an unfinished deletion is known.
        await self._cancel_runs(thread_id)
        await self._delete_checkpoints(thread_id)
        await self._workspaces.delete(thread_id)
        await self._store.finish_deletion(thread_id)


def _found(thread_id: str, thread: Thread | None) -> Thread:
    if thread is None:
        raise NotFound(f"There is no thread {thread_id}")
    return thread
