"""Executes one run: claim it, stream the graph into events, persist how it ended."""

from __future__ import annotations

import asyncio
import logging
import os
import socket
from collections.abc import AsyncGenerator, Mapping
from contextlib import aclosing
from dataclasses import dataclass
from typing import Any

from langgraph.graph.state import CompiledStateGraph

from app.config import RunSettings
from app.errors import Conflict, RunTimeout, ThreadkeepError
from app.persistence.events import EventStore
from app.persistence.outage import is_outage, through_outage
from app.persistence.queue import HandBack
from app.persistence.rollback import RollbackStore
from app.persistence.runs import Run, RunLost, RunStatus, RunStore
from app.persistence.threads import ThreadStore
from app.persistence.token_usage import TokenUsageStore
from app.ports import Graphs
from app.redaction import Redactor
from app.services.accounts.budget import CURRENT, TokenBudget, budget_of
from app.services.accounts.limits import Limits
from app.services.accounts.service import NOBODY
from app.services.accounts.usage import UsageRecorder
from app.services.runs.event_writer import EventWriter
from app.services.runs.graph_events import NamedEvent, graph_events
from app.services.runs.left import left_by
from app.services.runs.patience import to_its_end, undisturbed, unless_cancelled
from app.services.runs.request import OWNER_KEY, call_of
from app.services.runs.spans import graph_spans, run_scope
from app.services.work_metrics import RunClock, RunMetrics
from app.telemetry import redact

# How often a run looks whether the thread it waits for is free again (a compaction or a state write holds it), and for
# how long before it gives its place to runs of other threads. The queue looks for it again about once a second.
RESERVATION_POLL_SECONDS = 0.1
RESERVATION_WAIT_SECONDS = 1.0
AWAY_SECONDS = 0.5
# A provider's error may repeat the whole request.
MAX_ERROR_CHARACTERS = 4_000
WORKER = f"{socket.gethostname()}:{os.getpid()}"

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Ending:
    """How a run ended: its status, the error its clients are told, and what the models reported as used."""

    status: RunStatus
    error: Mapping[str, Any] | None = None
    rollback: bool = False


class RunExecutor:
    """Takes run ids from the queue. Whatever happens to a run, it ends with a status, or goes back to the queue."""

    def __init__(
        self,
        runs: RunStore,
        events: EventStore,
        threads: ThreadStore,
        graphs: Graphs,
        settings: RunSettings,
        rollbacks: RollbackStore,
        limits: Limits,
        usage: TokenUsageStore,
        redactor: Redactor,
        metrics: RunMetrics,
    ) -> None:
        self._metrics = metrics
        self._runs = runs
        self._events = events
        self._threads = threads
        self._graphs = graphs
        self._settings = settings
        self._rollbacks = rollbacks
        self._limits = limits
        self._usage = usage
        self._redactor = redactor

    async def execute(self, run_id: str) -> None:
        """Execute a run to its end. Raises HandBack when this worker is told to stop before, and when the run has to
        wait for its thread."""
        run, told_to_stop = await to_its_end(self._claim(run_id))
        if run is None:
            return
        if run.cancel_action or told_to_stop:
            await undisturbed(self._end(run, await undisturbed(self._stopped(run))))
        elif run.lost >= self._settings.max_attempts:
            await undisturbed(self._end(run, Ending("error", _worker_lost(run))))
        else:
            with run_scope(run), self._metrics.executing(run) as clock:
                await self._execute(run, clock)

    async def _claim(self, run_id: str) -> Run | None:
        """Waits a little while the thread is reserved. None when the run is over or gone."""
        for _ in range(round(RESERVATION_WAIT_SECONDS / RESERVATION_POLL_SECONDS)):
            run = await through_outage(lambda: self._runs.claim(run_id, WORKER))
            if run:
                return run
            if not await through_outage(lambda: self._runs.is_active(run_id)):
                return None
            await asyncio.sleep(RESERVATION_POLL_SECONDS)
        raise HandBack(run_id, AWAY_SECONDS)

    async def _execute(self, run: Run, clock: RunClock) -> None:
        limit = budget_of(run.kwargs["config"], run.kwargs["context"], self._limits.run_tokens)
        usage = TokenBudget(limit, await undisturbed(self._used_before(run, limit)))
        work = asyncio.create_task(self._stream(run, usage, clock), name=f"run {run.run_id}")
        try:
            if await unless_cancelled(work):
                ending = await undisturbed(self._ending(run, work))
            else:
                ending = await undisturbed(self._stopped(run))
        finally:
            # Before its end is known, so that whoever sees it and goes on at once is held to what was used.
            await undisturbed(self._charge(run, usage))
        await undisturbed(self._end(run, ending, usage))

    async def _used_before(self, run: Run, limit: int | None) -> int:
        if run.attempt == 1 or limit is None:
            return 0
        return await through_outage(lambda: self._limits.used_by(run.run_id))

    async def _charge(self, run: Run, usage: TokenBudget) -> None:
        owner = run.kwargs.get(OWNER_KEY, NOBODY)
        await through_outage(lambda: self._limits.used(owner, usage.spent))

    async def _ending(self, run: Run, work: asyncio.Task[None]) -> Ending | None:
        """How the run ended by itself. None when it is another worker's now. Raises HandBack when the database was
        away for too long, unless it has been tried often enough."""
        if work.cancelled():
            return Ending(
                "error", {"error": "CancelledError", "message": "A part of the graph cancelled the run"}
            )
        match work.exception():
            case None:
                return Ending("success")
            case RunLost():
                log.warning("run %s was taken over by another worker", run.run_id)
                return None
            case RunTimeout() as error:
                return Ending("timeout", describe(error, self._redactor))
            case error:
                log.warning("run %s failed", run.run_id, exc_info=error)
                if is_outage(error) and run.lost + 1 < self._settings.max_attempts:
                    await self._hand_back(run, counts=True)
                return Ending("error", describe(error, self._redactor))

    async def _stopped(self, run: Run) -> Ending | None:
        """A person cancelled the run, or this worker is draining: then the run goes back to the queue."""
        await self._hand_back(run, counts=False)
        now = await through_outage(lambda: self._runs.find(run.run_id))
        if now is None or now.attempt != run.attempt or not now.cancel_action:
            return None
        return Ending("interrupted", rollback=now.cancel_action == "rollback")

    async def _hand_back(self, run: Run, *, counts: bool) -> None:
        """Raises HandBack, unless the run was cancelled or is not this worker's any more."""
        if await through_outage(lambda: self._runs.hand_back(run.run_id, run.attempt, counts=counts)):
            raise HandBack(run.run_id)

    async def _stream(self, run: Run, usage: TokenBudget, clock: RunClock) -> None:
        first = 1 if run.attempt == 1 else await self._events.last_seq(run.run_id) + 1
        async with (
            graph_spans() as spans,
            UsageRecorder(self._usage, run.thread_id, run.run_id) as recorder,
            EventWriter(self._events, run.run_id, run.attempt, first) as writer,
        ):
            await writer.put("metadata", {"run_id": run.run_id, "attempt": run.attempt})
            opening = self._graphs.open_run(
                run.kwargs["graph_name"], run.kwargs["model_name"], call_of(run, resumed=False).config
            )
            async with opening as graph:
                call = call_of(run, resumed=run.attempt > 1 and await _has_begun(graph, run))
                # The budget last: what it stops, the others have heard of.
                call.config["callbacks"] = [recorder, *spans, usage]
                CURRENT.set(usage)
                await _refuse_answer_to_nothing(graph, run)
                await self._in_time(writer, graph_events(graph, call), clock)

    async def _in_time(
        self, writer: EventWriter, events: AsyncGenerator[NamedEvent], clock: RunClock
    ) -> None:
        limit = self._settings.timeout_s
        try:
            # Closed, so that nothing of the graph goes on after its run was given up.
            async with asyncio.timeout(limit) as deadline, aclosing(events):
                async for name, data in events:
                    clock.saw(name)
                    await writer.put(name, data)
        except TimeoutError:
            # A tool or a model may raise the same class.
            if deadline.expired():
                raise RunTimeout(f"The run took longer than {limit:g} seconds") from None
            raise

    async def _end(self, run: Run, ending: Ending | None, usage: TokenBudget | None = None) -> None:
        """Nothing to do when the run is another worker's now."""
        if ending is None:
            return
        self._metrics.ended(run, ending.status)
        used = dict(usage.usage_metadata) if usage else None
        # Not finished: the run is another worker's now, or somebody was told that it is taken back.
        if ending.rollback or not await self._finished(run, ending, used):
            await self._roll_back(run)

    async def _finished(self, run: Run, ending: Ending, used: Mapping[str, Any] | None) -> bool:
        left = await through_outage(lambda: left_by(run, self._graphs))
        return await through_outage(
            lambda: self._runs.finish(
                run.run_id, run.attempt, ending.status, ending.error, used, left.values, left.summary
            )
        )

    async def _roll_back(self, run: Run) -> None:
        """The thread is as before the run, and the run is gone; whoever follows it sees its stream end. Nothing happens
        to a run that has ended, or is another worker's."""
        undo = self._rollbacks.undo
        if await through_outage(lambda: undo(run.thread_id, run.run_id, run.attempt)):
            left = await through_outage(lambda: left_by(run, self._graphs))
            if summary := left.summary:
                save = self._threads.save_state_summary
                await through_outage(lambda: save(run.thread_id, summary))
            await through_outage(lambda: self._rollbacks.remove(run.run_id, run.attempt))


async def _has_begun(graph: CompiledStateGraph[Any, Any, Any, Any], run: Run) -> bool:
    """A worker before this one put the run's input into the thread."""
    head = await graph.aget_state({"configurable": {"thread_id": run.thread_id}})
    return (head.metadata or {}).get("run_id") == run.run_id


async def _refuse_answer_to_nothing(graph: CompiledStateGraph[Any, Any, Any, Any], run: Run) -> None:
    """On a thread that never ran, LangGraph would call the model with no message at all. On one that does not wait, it
    does nothing, and that is fine: the question was answered or left in the meantime."""
    if (run.kwargs["command"] or {}).get("resume") is None:
        return
    head = await graph.aget_state({"configurable": {"thread_id": run.thread_id}})
    if head.created_at is None:
        raise Conflict("Nothing waits for an answer: the thread has no state", code="nothing_to_resume")


def describe(error: BaseException, redactor: Redactor) -> dict[str, Any]:
    """An error as clients see it: class, a sentence without secrets, and the code of errors raised on purpose."""
    # With the known kinds even where placeholders are switched off: an error goes further than its thread.
    said = redact(redactor.text(str(error)))
    described = {"error": type(error).__name__, "message": _shortened(said)}
    return {**described, "code": error.code} if isinstance(error, ThreadkeepError) else described


def _shortened(text: str) -> str:
    return text if len(text) <= MAX_ERROR_CHARACTERS else f"{text[:MAX_ERROR_CHARACTERS]}…"


def _worker_lost(run: Run) -> dict[str, Any]:
    message = f"The run was given up after {run.lost} workers were lost while they executed it"
    return {"error": "WorkerLost", "message": message, "code": "worker_lost"}
