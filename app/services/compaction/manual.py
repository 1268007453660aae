"""What compactions by hand share, whether they are foreseen, drafted or made (spec: compaction, section I)."""

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
from app.persistence.runs import RunStore
from app.persistence.threads import ThreadStore
from app.ports import WRITER_NODE, ChatModels, CompactionJob, Graphs, Prepared
from app.services.compaction.compactor import ThreadCompactor
from app.services.threads.reservations import Held
from app.services.threads.state import summarize_snapshot


@dataclass(frozen=True, slots=True)
class CompactRequest:
    """A person's request. ``force`` ignores the trigger; ``keep`` is for this call; ``instructions`` is the focus."""

    force: bool = True
    keep: ContextSize | None = None
    model_name: str | None = None
    agent_name: str | None = None
    instructions: str | None = None


@dataclass(frozen=True, slots=True)
class Target:
    """A thread to be compacted by hand, as the graph ``graph_name`` with the model ``model_name``."""

    thread_id: str
    graph_name: str
    model_name: str


class ManualCompactions:
    """From a person's request to a job on the thread's head, and from a finished compaction to the state."""

    def __init__(
        self,
        settings: SummarizationSettings,
        threads: ThreadStore,
        runs: RunStore,
        graphs: Graphs,
        models: ChatModels,
        compactor: ThreadCompactor,
    ) -> None:
        self._settings = settings
        self._threads = threads
        self._runs = runs
        self._graphs = graphs
        self._models = models
        self._compactor = compactor

    async def target(self, owner: str, thread_id: str, request: CompactRequest) -> Target:
        """Raises NotFound, CompactionDisabled, InvalidInput (model, agent)."""
        graph_name = await self._graph_of(owner, thread_id, request.agent_name)
        if not self._settings.enabled:
            raise CompactionDisabled("Compaction is switched off (summarization.enabled is false)")
        return Target(thread_id, graph_name, self._model_for(graph_name, request.model_name))

    async def head(self, target: Target) -> StateSnapshot:
        """The thread's newest state. Who writes on top of it reads it inside the reservation: written from an older
        one, removed messages would come back."""
        graph = self._graphs.for_state(target.graph_name)
        return await graph.aget_state({"configurable": {"thread_id": target.thread_id}})

    async def refuse_to_lose_a_question(self, thread_id: str, head: StateSnapshot) -> None:
        """A paused thread waits for an answer, which the write would lose. What an error or a cancelled run left
        unfinished is no question. Raises ThreadInterrupted."""
        asked = any(task.interrupts for task in head.tasks)
        if not asked and head.next:
            last = await self._runs.page(thread_id, 1, 0, None)
            asked = bool(last) and last[0].status == "success"
        if asked:
            raise ThreadInterrupted(
                f"Thread {thread_id} is paused and waits for an answer; answer or cancel it, then compact"
            )

    def job(self, target: Target, request: CompactRequest, head: StateSnapshot) -> CompactionJob:
        self._graphs.check_compactable(target.graph_name, head.values)
        agent, model_name = self._graphs.spec(target.graph_name), target.model_name
        window, reserved = self._compactor.window(model_name), self._compactor.reserved(model_name)
        return CompactionJob(
            thread_id=target.thread_id,
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

    async def commit(
        self, held: Held, target: Target, job: CompactionJob, prepared: Prepared, head: StateSnapshot
    ) -> dict[str, Any]:
        """The state write on top of ``head``, the second half of a commit; the answer that tells of it."""
        update = compaction_update(prepared.compaction, prepared.compaction_id)
        try:
            checkpoint_id = await self.write(held, target, head, update)
        except BaseException as error:
            await self._compactor.abandon(
                job, prepared, f"the state was not written ({type(error).__name__})"
            )
            raise
        await self.note(target)
        return compacted(target.thread_id, prepared, checkpoint_id)

    async def write(self, held: Held, target: Target, head: StateSnapshot, update: Mapping[str, Any]) -> str:
        """Write other messages and another summary on top of ``head``; the id of the checkpoint that holds them. Raises
        ThreadBusy when the reservation ran out."""
        await held.confirm()
        written = await self._graphs.writer(target.graph_name).aupdate_state(
            head.config, self._graphs.write_of(target.graph_name, update), as_node=WRITER_NODE
        )
        checkpoint_id: str = written["configurable"]["checkpoint_id"]
        return checkpoint_id

    async def note(self, target: Target) -> None:
        """Bring what the thread's row keeps of its newest state up to date, after a write."""
        await self._threads.save_state_summary(target.thread_id, summarize_snapshot(await self.head(target)))

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

    def _model_for(self, graph_name: str, wanted: str | None) -> str:
        """The request's model, else the one of the thread's agent, else the default."""
        chosen = wanted or self._graphs.spec(graph_name).model or self._models.default
        if chosen not in self._models.names:
            known = ", ".join(self._models.names)
            raise InvalidInput(f"model_name: there is no model {chosen!r}; known: {known}")
        return chosen


def compacted(thread_id: str, prepared: Prepared, checkpoint_id: str) -> dict[str, Any]:
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


def skipped(thread_id: str, outcome: Skipped, head: StateSnapshot) -> dict[str, Any]:
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
