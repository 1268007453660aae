"""Pruning: threads that keep what they know and lose the way they came to it."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from app.errors import NotFound, ThreadBusy
from app.persistence.compactions import CompactionStore
from app.persistence.pruning import Lineage, PruneStore
from app.persistence.snapshots import Snapshot, UnknownDeltas, missing_snapshots
from app.persistence.threads import ThreadStore
from app.ports import Graphs
from app.services.threads.reservations import Reservations
from app.services.threads.service import ThreadService

_log = logging.getLogger(__name__)

PruneStrategy = Literal["delete", "keep_latest"]
SkipReason = Literal["busy", "not_found", "unreadable"]


@dataclass(frozen=True, slots=True)
class Pruned:
    """``removed_checkpoints`` of the threads that were pruned; the other threads with the reason for each."""

    pruned_count: int
    removed_checkpoints: int
    skipped: Sequence[tuple[str, SkipReason]]


class Pruning:
    """Removes threads, or what they do not need."""

    def __init__(
        self,
        service: ThreadService,
        threads: ThreadStore,
        records: CompactionStore,
        store: PruneStore,
        graphs: Graphs,
        reservations: Reservations,
    ) -> None:
        self._service = service
        self._threads = threads
        self._records = records
        self._store = store
        self._graphs = graphs
        self._reservations = reservations

    async def prune(self, owner: str, thread_ids: Sequence[str], strategy: PruneStrategy) -> Pruned:
        """One thread after the other. A thread that is busy, missing or of somebody else is left alone and named."""
        pruned, removed = 0, 0
        skipped: list[tuple[str, SkipReason]] = []
        for thread_id in dict.fromkeys(thread_ids):
            match await self.prune_one(owner, thread_id, strategy):
                case int() as count:
                    pruned, removed = pruned + 1, removed + count
                case reason:
                    skipped.append((thread_id, reason))
        return Pruned(pruned, removed, skipped)

    async def prune_one(self, owner: str, thread_id: str, strategy: PruneStrategy) -> int | SkipReason:
        """How many checkpoints were removed by themselves, or why nothing was done."""
        try:
            if strategy == "keep_latest":
                return await self._keep_latest(owner, thread_id)
            await self._service.delete(owner, thread_id, idle_only=True)
            return 0
        except ThreadBusy:
            return "busy"
        except NotFound:
            return "not_found"
        except UnknownDeltas as error:
            _log.warning("thread %s is not pruned: its graph does not know the channels %s", thread_id, error)
            return "unreadable"

    async def _keep_latest(self, owner: str, thread_id: str) -> int:
        await self._records.settle(thread_id)
        async with self._reservations.hold(owner, thread_id) as held:
            lineage = await self._store.lineage(thread_id)
            snapshots = await self._snapshots(thread_id, lineage)
            await held.confirm()
            removed = await self._store.prune(thread_id, held.holder, lineage, snapshots)
        if removed is None:
            raise ThreadBusy(f"Thread {thread_id} was taken over by another writer; nothing was pruned")
        return removed

    async def _snapshots(self, thread_id: str, lineage: Lineage) -> list[Snapshot]:
        thread = await self._threads.find(thread_id)
        graph = self._graphs.for_state(thread.graph_name if thread else None)
        saver = graph.checkpointer
        assert saver is not None and not isinstance(saver, bool)  # hosted graphs have the service's
        return [
            snapshot
            for checkpoint_id in lineage.kept
            for snapshot in await missing_snapshots(saver, graph.channels, thread_id, checkpoint_id)
        ]
