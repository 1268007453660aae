"""Says what is to be read for facts about the person: finished turns, and what a compaction is about to remove."""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable

from app.compaction.roles import is_real_user_message
from app.persistence.memory_queue import MemoryJob, MemoryQueue
from app.persistence.runs import RunStore
from app.ports import SummarizationEvent
from app.services.memory.prompt import said_by_person

log = logging.getLogger(__name__)


class MemoryFeed:
    """Only defers jobs. Nothing that goes wrong here is a matter of the run."""

    def __init__(self, runs: RunStore, queue: MemoryQueue) -> None:
        self._runs = runs
        self._queue = queue

    def after(self, execute: Callable[[str], Awaitable[None]]) -> Callable[[str], Awaitable[None]]:
        """``execute`` (of a run id), and then its turn is to be read. The job of the run is not over before that, so a
        worker that dies in between leaves it to the next one."""

        async def execute_and_tell(run_id: str) -> None:
            await execute(run_id)
            await self._run_ended(run_id)

        return execute_and_tell

    async def _run_ended(self, run_id: str) -> None:
        try:
            run = await self._runs.find(run_id)
            if run is not None and run.status == "success":
                await self._queue.defer(MemoryJob(run.thread_id, run.kwargs["model_name"]))
        except Exception:  # the turn is read with the next one
            log.exception("the turn of run %s cannot be queued to be read for facts", run_id)

    async def before_summarization(self, event: SummarizationEvent) -> None:
        """The hook of rule F3. The job refers to the archive, where the removed messages are when it begins."""
        if event.agent_kind == "subagent" or not said_by_person(event.removed):
            return
        asked = [message.id for message in event.kept if is_real_user_message(message)]
        await self._queue.defer(
            MemoryJob(
                event.thread_id,
                event.model_name,
                compaction_id=event.compaction_id,
                question_id=asked[-1] if asked else None,
            )
        )
