"""Manual compaction of a thread, and what is shown of a thread's context (spec: compaction, section I)."""

from __future__ import annotations

from typing import Any

from app.compaction.types import Skipped
from app.errors import NotFound
from app.persistence.compactions import CompactionRecord, CompactionStore
from app.persistence.threads import ThreadStore
from app.services.background import Background
from app.services.compaction.compactor import ThreadCompactor
from app.services.compaction.manual import CompactRequest, ManualCompactions, Target, skipped
from app.services.threads.reservations import Reservations


class CompactionService:
    """The use cases behind ``/compact`` and ``/compactions``."""

    def __init__(
        self,
        threads: ThreadStore,
        records: CompactionStore,
        reservations: Reservations,
        manual: ManualCompactions,
        compactor: ThreadCompactor,
        background: Background,
    ) -> None:
        self._threads = threads
        self._records = records
        self._reservations = reservations
        self._manual = manual
        self._compactor = compactor
        self._background = background

    async def compact(self, owner: str, thread_id: str, request: CompactRequest) -> dict[str, Any]:
        """Compact the thread; a client that goes away changes nothing, the work goes on and commits whole.

        Raises NotFound, CompactionDisabled, InvalidInput (model, agent), ThreadBusy, ThreadInterrupted,
        SummaryGenerationError, SummaryTimeout. Nothing to do is an answer, not an error.
        """
        target = await self._manual.target(owner, thread_id, request)
        return await self._background.finish(self._compact(owner, target, request))

    async def records(
        self, owner: str, thread_id: str, limit: int, before: str | None, checkpoint_ns: str = ""
    ) -> list[CompactionRecord]:
        """Those of the thread's own conversation, or of a subagent's, newest first. Raises NotFound."""
        await self._check_exists(owner, thread_id)
        await self._records.settle(thread_id)
        return await self._records.page(thread_id, limit, before, checkpoint_ns)

    async def record(
        self, owner: str, thread_id: str, compaction_id: str
    ) -> tuple[CompactionRecord, list[str]]:
        """A record, and the messages it removed as JSON texts. Raises NotFound."""
        await self._check_exists(owner, thread_id)
        await self._records.settle(thread_id)
        record = await self._records.get(thread_id, compaction_id)
        if record is None:
            raise NotFound(f"There is no compaction {compaction_id} on thread {thread_id}")
        return record, await self._records.removed_messages(thread_id, compaction_id)

    async def _compact(self, owner: str, target: Target, request: CompactRequest) -> dict[str, Any]:
        await self._records.settle(target.thread_id)
        async with self._reservations.hold(owner, target.thread_id) as held:
            head = await self._manual.head(target)
            await self._manual.refuse_to_lose_a_question(target.thread_id, head)
            job = self._manual.job(target, request, head)
            outcome = await self._compactor.manual(job)
            if isinstance(outcome, Skipped):
                return skipped(target.thread_id, outcome, head)
            return await self._manual.commit(held, target, job, outcome, head)

    async def _check_exists(self, owner: str, thread_id: str) -> None:
        if await self._threads.get(thread_id, owner) is None:
            raise NotFound(f"There is no thread {thread_id}")


def record_to_json(record: CompactionRecord, *, whole: bool = False) -> dict[str, Any]:
    """A record as the API shows it; ``whole`` adds the summary."""
    shown = {name: getattr(record, name) for name in CompactionRecord.__dataclass_fields__}
    if not whole:
        del shown["summary_text"]
    return shown
