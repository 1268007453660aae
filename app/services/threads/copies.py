"""Copying a thread: an independent one that knows the same."""

from __future__ import annotations

import asyncio
import logging

from app.errors import ThreadBusy
from app.persistence.copies import CopyStore
from app.persistence.threads import ThreadStore
from app.ports import Workspaces
from app.services.ids import new_id
from app.services.threads.reservations import Held, Reservations

_log = logging.getLogger(__name__)


class ThreadCopies:
    """``store`` copies rows, ``workspaces`` files."""

    def __init__(
        self,
        threads: ThreadStore,
        store: CopyStore,
        workspaces: Workspaces,
        reservations: Reservations,
    ) -> None:
        self._threads = threads
        self._store = store
        self._workspaces = workspaces
        self._reservations = reservations

    async def copy(self, owner: str, thread_id: str) -> str:
        """The id of a new thread with all checkpoints, the archive, records, pins and files of this one, but without
        its runs. The copy is idle, or waits for the answer that this one waits for.

        Raises NotFound, and ThreadBusy while anything is at work on the thread.
        """
        copy_id = new_id()
        async with self._reservations.hold(owner, thread_id) as source:
            copy = self._reservations.held(copy_id)
            await self._store.begin(copy_id, owner, copy.holder, copy.ttl_s)
            beat = asyncio.create_task(copy.keep(), name=f"hold {copy_id}")
            try:
                await self._fill(source, copy)
            except BaseException:
                await asyncio.shield(self._discard(copy_id))
                raise
            finally:
                beat.cancel()
        return copy_id

    async def _fill(self, source: Held, copy: Held) -> None:
        await self._workspaces.copy(source.thread_id, copy.thread_id)
        await source.confirm()
        await copy.confirm()
        if not await self._store.finish(source.thread_id, source.holder, copy.thread_id, copy.holder):
            raise ThreadBusy(
                f"Thread {source.thread_id} was taken over by another writer; nothing was copied"
            )

    async def _discard(self, copy_id: str) -> None:
        """What is left of a copy that failed. If this fails as well, the next start of a service does it."""
        try:
            await self._workspaces.delete(copy_id)
            await self._threads.finish_deletion(copy_id)
        except Exception:  # noqa: BLE001 - the error to be told is the one that the copy failed with
            _log.exception("Cannot remove what is left of a copy, thread %s", copy_id)
