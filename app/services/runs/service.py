"""Runs as clients see them: started, listed, joined, cancelled."""

from __future__ import annotations

import uuid
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from app.errors import Conflict, InvalidInput, NotFound, ThreadBusy
from app.persistence.admission import Admissions, NewRun
from app.persistence.queue import RunQueue, new_job
from app.persistence.runs import CancelAction, Run, RunStatus, RunStore
from app.ports import ChatModels, Graphs
from app.services.accounts.budget import budget_of
from app.services.accounts.limits import Limits
from app.services.assistants import AssistantService
from app.services.runs.input import RunInputs
from app.services.runs.request import OWNER_KEY, RunRequest
from app.services.runs.spans import TRACE_KEY
from app.services.runs.streams import RunStreams
from app.services.webhooks.policy import WebhookPolicy
from app.services.work_metrics import AFTER_KEY
from app.telemetry import trace_headers

_PRIVATE = frozenset({"create_thread", "temporary", OWNER_KEY, TRACE_KEY, AFTER_KEY})
_OPEN: Mapping[str, Sequence[RunStatus]] = {
    "pending": ("pending",),
    "running": ("running",),
    "all": ("pending", "running"),
}
BulkStatus = Literal["pending", "running", "all"]


@dataclass(frozen=True, slots=True)
class Prepared:
    """A run that nothing speaks against but what happens on its thread until it is admitted."""

    request: RunRequest
    graph_name: str
    model_name: str
    assistant_id: str


class RunService:
    """``queue`` takes admitted runs; the executor that works them off may be in another process."""

    def __init__(
        self,
        runs: RunStore,
        admissions: Admissions,
        inputs: RunInputs,
        streams: RunStreams,
        queue: RunQueue,
        graphs: Graphs,
        assistants: AssistantService,
        models: ChatModels,
        limits: Limits,
        webhooks: WebhookPolicy,
    ) -> None:
        self._inputs = inputs
        self._runs = runs
        self._admissions = admissions
        self._streams = streams
        self._queue = queue
        self._graphs = graphs
        self._assistants = assistants
        self._models = models
        self._limits = limits
        self._webhooks = webhooks

    async def start(self, thread_id: str, owner: str, request: RunRequest) -> Run:
        """Admit a run and queue it, in one transaction.

        Raises InvalidInput or NotFound (assistant, model), NotFound (thread), ThreadBusy (strategy ``reject``),
        RateLimited (what the owner may use).
        """
        return await self.admit(thread_id, owner, await self.prepare(thread_id, owner, request))

    async def prepare(self, thread_id: str, owner: str, request: RunRequest) -> Prepared:
        """Check everything that can be checked before a run is admitted. Raises InvalidInput, NotFound, and Conflict
        for an assistant whose graph is gone."""
        assistant, request = await self._assistants.applied(owner, request)
        graph_name = assistant.graph_id
        model_name = self.model_for(graph_name, request.model_name)
        budget_of(request.config, request.context, None)
        if request.webhook is not None:
            self._webhooks.check(request.webhook)
        cleaned = await self._inputs.clean(thread_id, graph_name, request)
        return Prepared(cleaned, graph_name, model_name, assistant.assistant_id)

    async def admit(self, thread_id: str, owner: str, prepared: Prepared) -> Run:
        """Raises NotFound (thread), ThreadBusy and RateLimited."""
        request = prepared.request
        await self._limits.tokens(owner)
        new = _new_run(owner, prepared)
        if request.multitask_strategy != "enqueue" or request.create_thread or self._limits.counts_runs:
            return await self._look_and_admit(thread_id, owner, request, new)
        # Who waits for its turn does not have to know for whom.
        run = await self._admissions.admit(thread_id, owner, new)
        if run is None:
            raise NotFound(f"There is no thread {thread_id}")
        return run

    async def _look_and_admit(self, thread_id: str, owner: str, request: RunRequest, new: NewRun) -> Run:
        replaces = request.multitask_strategy in ("interrupt", "rollback")
        async with self._admissions.look(
            thread_id, owner, create=request.create_thread, temporary=request.temporary
        ) as admission:
            if admission is None:
                raise NotFound(f"There is no thread {thread_id}")
            active = await admission.active_runs()
            if request.multitask_strategy == "reject" and (active or admission.reserved):
                raise ThreadBusy(f"Thread {thread_id} is busy; the run was rejected as its strategy says")
            await self._limits.run(admission.connection, owner, thread_id if replaces else None)
            run = await admission.insert(new)
        if request.multitask_strategy in ("interrupt", "rollback"):
            await self._stop(active, request.multitask_strategy)
        return run

    def model_for(self, graph_name: str, wanted: str | None) -> str:
        """The model a run uses: the client's choice, else the agent's, else the first usable one. A graph that
        somebody else wrote may know models that are none of ours."""
        agent = self._graphs.spec(graph_name)
        if agent.hosted and wanted not in self._models.names:
            wanted = None
        chosen = wanted or agent.model or self._models.default
        if chosen not in self._models.names:
            known = ", ".join(self._models.names)
            raise InvalidInput(f"model_name: there is no model {chosen!r}; known: {known}")
        return chosen

    async def get(self, thread_id: str, run_id: str) -> Run:
        run = await self._runs.get(thread_id, run_id)
        if run is None:
            raise NotFound(f"There is no run {run_id} on thread {thread_id}")
        return run

    async def page(self, thread_id: str, limit: int, offset: int, status: str | None) -> list[Run]:
        return await self._runs.page(thread_id, limit, offset, status)

    async def delete(self, thread_id: str, run_id: str) -> None:
        run = await self.get(thread_id, run_id)
        if run.active or not await self._runs.delete(thread_id, run_id):
            raise Conflict(f"Run {run_id} is {run.status}; cancel it before deleting it", code="run_active")

    async def cancel(self, thread_id: str, run_id: str, action: CancelAction) -> Run:
        """Ask a run to stop. Raises Conflict when it has ended already."""
        run = await self.get(thread_id, run_id)
        if not run.active or not await self._cancel(run, action):
            raise Conflict(
                f"Run {run_id} has ended with {run.status} and cannot be cancelled", code="run_finished"
            )
        return run

    async def cancel_chosen(
        self,
        owner: str,
        thread_id: str | None,
        run_ids: Sequence[str] | None,
        status: BulkStatus | None,
        action: CancelAction,
    ) -> None:
        """Ask runs to stop: those of ``run_ids``, else all of the owner's (on one thread, if given) with this status.

        Raises NotFound for an id that no run of the owner has, and Conflict when all named runs have ended already.
        """
        chosen = await self._runs.chosen(owner, thread_id, run_ids, _OPEN[status or "all"])
        missing = set(run_ids or ()) - {run.run_id for run in chosen}
        if missing:
            where = f" on thread {thread_id}" if thread_id else ""
            raise NotFound(f"There is no run {', '.join(sorted(missing))}{where}")
        # The newest first: else each would begin as soon as the one before it is gone.
        stopped = [await self._cancel(run, action) for run in reversed(chosen) if run.active]
        if run_ids and not any(stopped):
            raise Conflict("All of these runs have ended and cannot be cancelled", code="run_finished")

    async def cancel_all(self, thread_id: str) -> None:
        """Stop every active run of a thread and wait until none of them writes any more (it is about to be deleted)."""
        active = await self._runs.active(thread_id)
        await self._stop(active, "interrupt")
        for run in active:
            async for _ in self._streams.finished(run.run_id):
                pass

    async def _stop(self, runs: Sequence[Run], action: CancelAction) -> None:
        # The newest first: else each would begin as soon as the one before it is gone.
        for run in reversed(runs):
            await self._cancel(run, action)

    async def _cancel(self, run: Run, action: CancelAction) -> bool:
        """False when the run ended in the meantime."""
        while True:
            if await self._runs.cancel_pending(run.run_id):
                if action == "rollback":
                    await self._runs.delete(run.thread_id, run.run_id)
                return True
            if running := await self._runs.request_cancel(run.run_id, action):
                if running.job_id is not None:
                    await self._queue.abort(running.job_id)
                return True
            # Neither pending nor running: it has ended, or was handed back between the two questions.
            if not await self._runs.is_active(run.run_id):
                return False


def _new_run(owner: str, prepared: Prepared) -> NewRun:
    request, graph_name = prepared.request, prepared.graph_name
    return NewRun(
        run_id=str(uuid.uuid4()),
        assistant_id=prepared.assistant_id,
        kwargs={
            **request.to_kwargs(graph_name, prepared.model_name),
            OWNER_KEY: owner,
            TRACE_KEY: trace_headers(),
            AFTER_KEY: request.after_seconds,
        },
        metadata=request.metadata,
        multitask_strategy=request.multitask_strategy,
        thread_metadata={"graph_id": graph_name, "assistant_id": prepared.assistant_id},
        webhook=request.webhook,
        job=new_job(request.after_seconds),
    )


def run_to_json(run: Run) -> dict[str, Any]:
    """The Run object of the HTTP contract."""
    return {
        "run_id": run.run_id,
        "thread_id": run.thread_id,
        "assistant_id": run.assistant_id,
        "created_at": run.created_at,
        "updated_at": run.updated_at,
        "status": run.status,
        "metadata": run.metadata,
        "kwargs": public_kwargs(run.kwargs),
        "multitask_strategy": run.multitask_strategy,
    }


def public_kwargs(kwargs: Mapping[str, Any]) -> dict[str, Any]:
    """What a run was started with, as its client may see it."""
    return {key: value for key, value in kwargs.items() if key not in _PRIVATE}
