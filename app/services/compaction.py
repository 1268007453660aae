"""Manual compaction of a thread, and what is shown of a thread's context (spec: compaction, section I)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from langgraph.types import StateSnapshot

from app.agent.context import context_of
from app.agent.state import compaction_update, last_compaction_id
from app.compaction.types import ContextSize, Skipped
from app.config import SummarizationSettings
from app.errors import CompactionDisabled, InvalidInput, NotFound, ThreadInterrupted
from app.persistence.compactions import CompactionRecord, CompactionStore
from app.persistence.runs import RunStore
from app.persistence.threads import ThreadStore
from app.ports import WRITER_NODE, AgentSpec, ChatModels, CompactionJob, Graphs, Prepared
from app.services.background import Background
from app.services.compactor import ThreadCompactor
from app.services.reservations import Held, Reservations
from app.services.state import summarize_snapshot


@dataclass(frozen=True, slots=True)
class CompactRequest:
    """A person's request. ``force`` ignores the trigger; ``keep`` is for this call; ``instructions`` is the focus."""

    force: bool = True
    keep: ContextSize | None = None
    model_name: str | None = None
    agent_name: str | None = None
    instructions: str | None = None


class CompactionService:
    """The use cases behind ``/compact`` and ``/compactions``."""

    def __init__(
        self,
        settings: SummarizationSettings,
        threads: ThreadStore,
        runs: RunStore,
        records: CompactionStore,
        reservations: Reservations,
        graphs: Graphs,
        models: ChatModels,
        compactor: ThreadCompactor,
        background: Background,
    ) -> None:
        self._settings = settings
        self._threads = threads
        self._runs = runs
        self._records = records
        self._reservations = reservations
        self._graphs = graphs
        self._models = models
        self._compactor = compactor
        self._background = background

    async def compact(self, owner: str, thread_id: str, request: CompactRequest) -> dict[str, Any]:
        """Compact the thread; a client that goes away changes nothing, the work goes on and commits whole.

        Raises NotFound, CompactionDisabled, InvalidInput (model, agent), ThreadBusy, ThreadInterrupted,
        SummaryGenerationError, SummaryTimeout. Nothing to do is an answer, not an error.
        """
        graph_name = await self._graph_of(owner, thread_id, request.agent_name)
        if not self._settings.enabled:
            raise CompactionDisabled("Compaction is switched off (summarization.enabled is false)")
        model_name = self._model_for(graph_name, request.model_name)
        return await self._background.finish(self._compact(owner, thread_id, request, graph_name, model_name))

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

    async def _compact(
        self, owner: str, thread_id: str, request: CompactRequest, graph_name: str, model_name: str
    ) -> dict[str, Any]:
        await self._records.settle(thread_id)
        async with self._reservations.hold(owner, thread_id) as held:
            # The head is read inside the reservation: written from an older one, removed messages would come back.
            head = await self._head(graph_name, thread_id)
            await self._refuse_to_lose_a_question(thread_id, head)
            job = self._job(thread_id, request, self._graphs.spec(graph_name), model_name, head)
            outcome = await self._compactor.manual(job)
            if isinstance(outcome, Skipped):
                return _skipped(thread_id, outcome, head)
            return await self._commit(held, graph_name, job, outcome, head)

    async def _commit(
        self, held: Held, graph_name: str, job: CompactionJob, prepared: Prepared, head: StateSnapshot
    ) -> dict[str, Any]:
        try:
            await held.confirm()
            written = await self._graphs.writer(graph_name).aupdate_state(
                head.config,
                compaction_update(prepared.compaction, prepared.compaction_id),
                as_node=WRITER_NODE,
            )
        except BaseException as error:
            await self._compactor.abandon(
                job, prepared, f"the state was not written ({type(error).__name__})"
            )
            raise
        snapshot = await self._head(graph_name, held.thread_id)
        await self._threads.save_state_summary(held.thread_id, summarize_snapshot(snapshot))
        return _compacted(held.thread_id, prepared, written["configurable"]["checkpoint_id"])

    async def _head(self, graph_name: str, thread_id: str) -> StateSnapshot:
        return await self._graphs.for_state(graph_name).aget_state({"configurable": {"thread_id": thread_id}})

    async def _refuse_to_lose_a_question(self, thread_id: str, head: StateSnapshot) -> None:
        """A paused thread waits for an answer, which the write would lose. What an error or a cancelled run left
        unfinished is no question."""
        asked = any(task.interrupts for task in head.tasks)
        if not asked and head.next:
            last = await self._runs.page(thread_id, 1, 0, None)
            asked = bool(last) and last[0].status == "success"
        if asked:
            raise ThreadInterrupted(
                f"Thread {thread_id} is paused and waits for an answer; answer or cancel it, then compact"
            )

    async def _graph_of(self, owner: str, thread_id: str, agent_name: str | None) -> str:
        """The request's agent, else the one the thread's last run used, else the default."""
        thread = await self._threads.get(thread_id, owner)
        if thread is None:
            raise NotFound(f"There is no thread {thread_id}")
        if agent_name is None:
            return self._graphs.spec(thread.graph_name).name
        try:
            return self._graphs.resolve(agent_name)
        except (InvalidInput, NotFound):
            known = ", ".join(self._graphs.names)
            raise InvalidInput(f"agent_name: there is no agent {agent_name!r}; known: {known}") from None

    async def _check_exists(self, owner: str, thread_id: str) -> None:
        if await self._threads.get(thread_id, owner) is None:
            raise NotFound(f"There is no thread {thread_id}")

    def _model_for(self, graph_name: str, wanted: str | None) -> str:
        """The request's model, else the one of the thread's agent, else the default."""
        chosen = wanted or self._graphs.spec(graph_name).model or self._models.default
        if chosen not in self._models.names:
            known = ", ".join(self._models.names)
            raise InvalidInput(f"model_name: there is no model {chosen!r}; known: {known}")
        return chosen

    def _job(
        self,
        thread_id: str,
        request: CompactRequest,
        agent: AgentSpec,
        model_name: str,
        head: StateSnapshot,
    ) -> CompactionJob:
        window, reserved = self._compactor.window(model_name), self._compactor.reserved(model_name)
        return CompactionJob(
            thread_id=thread_id,
            run_id=None,
            agent_name=agent.name,
            model_name=model_name,
            context=context_of(head.values, agent, window, reserved),
            kind="manual",
            force=request.force,
            keep=request.keep,
            instructions=request.instructions,
            previous_id=last_compaction_id(head.values),
        )


def _compacted(thread_id: str, prepared: Prepared, checkpoint_id: str) -> dict[str, Any]:
    compaction = prepared.compaction
    return {
        "thread_id": thread_id,
        "compacted": True,
        "reason": None,
        "removed_message_count": len(compaction.removed) + len(compaction.dropped),
        "preserved_message_count": len(compaction.kept),
        "summary_updated": True,
        "checkpoint_id": checkpoint_id,
        "total_tokens": compaction.tokens_before,
        "tokens_after": compaction.tokens_after,
        "compaction_id": prepared.compaction_id,
        "model_name": compaction.model_name,
        "coverage": compaction.coverage,
        "duration_ms": compaction.duration_ms,
    }


def _skipped(thread_id: str, outcome: Skipped, head: StateSnapshot) -> dict[str, Any]:
    configurable: Mapping[str, Any] = head.config.get("configurable", {}) if head.created_at else {}
    return {
        "thread_id": thread_id,
        "compacted": False,
        "reason": outcome.reason,
        "removed_message_count": 0,
        "preserved_message_count": outcome.message_count,
        "summary_updated": False,
        "checkpoint_id": configurable.get("checkpoint_id"),
        "total_tokens": outcome.tokens_before,
        "tokens_after": outcome.tokens_before,
        "compaction_id": None,
        "model_name": None,
        "coverage": None,
        "duration_ms": outcome.duration_ms,
    }


def record_to_json(record: CompactionRecord, *, whole: bool = False) -> dict[str, Any]:
    """A record as the API shows it; ``whole`` adds the summary."""
    shown = {name: getattr(record, name) for name in CompactionRecord.__dataclass_fields__}
    if not whole:
        del shown["summary_text"]
    return shown
