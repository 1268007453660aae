"""The compactor: what the hook, the overflow recovery and the route share around the pure pipeline."""

from __future__ import annotations

import logging
import uuid
from collections.abc import Awaitable, Callable, Sequence
from contextlib import ExitStack
from dataclasses import replace
from functools import partial
from typing import Any, Literal

from app.compaction.pipeline import Plan, compact
from app.compaction.summarize import CandidateHealth
from app.compaction.tokens import TokenCounter, counter_for
from app.compaction.types import Candidate, Compaction, CompactionPolicy, Redact, Skipped, unchanged
from app.config import SummarizationSettings
from app.errors import CompactionInvariantError, ModelError, SummaryGenerationError
from app.persistence.breakers import Breaker, BreakerStore
from app.persistence.compactions import CompactionRecord, CompactionStore, InTransaction
from app.persistence.pins import PinStore
from app.ports import ChatModels, CompactionJob, Prepared, SummarizationEvent, SummarizationHook
from app.services.accounts.budget import charged, is_spent
from app.services.compaction.metrics import CompactionMetrics
from app.services.compaction.report import announce, committing, failed, figures, skipped, what_fills
from app.telemetry import span

# Rule E3: after three failures in a row the automatic path waits, longer with each further one.
BREAKER_THRESHOLD = 3
BREAKER_PAUSE_SECONDS = 30.0
BREAKER_LONGEST_SECONDS = 1800.0

log = logging.getLogger(__name__)

Finish = Callable[[CompactionJob, str, Compaction], Awaitable[Prepared]]
"""What is done with a finished compaction (job, its id, the compaction) before the state write."""


class _BreakerOpen(Exception):
    """The automatic path does not even ask a model now."""


class ThreadCompactor:
    """Runs the pipeline for a thread, archives what it removes, keeps the record. The state write is the caller's."""

    def __init__(
        self,
        settings: SummarizationSettings,
        models: ChatModels,
        store: CompactionStore,
        breakers: BreakerStore,
        pins: PinStore,
        metrics: CompactionMetrics,
        is_overflow: Callable[[BaseException], bool],
        hooks: Sequence[SummarizationHook] = (),
        redact: Redact = unchanged,
    ) -> None:
        self._settings = settings
        self._policy = replace(settings.policy, redact=redact)
        self._models = models
        self._store = store
        self._breakers = breakers
        self._pins = pins
        self._metrics = metrics
        self.is_overflow = is_overflow
        self._hooks = tuple(hooks)
        self._health = CandidateHealth()
        self._counters: dict[str, TokenCounter] = {}

    @property
    def policy(self) -> CompactionPolicy:
        return self._policy

    def policy_for(self, job: CompactionJob) -> CompactionPolicy:
        """The configured policy with what the job asks for itself."""
        return self._policy if job.keep is None else replace(self._policy, keep=job.keep)

    def window(self, model_name: str) -> int | None:
        names = (self._settings.model_name or model_name, model_name)
        known = [window for name in names if (window := self._models.window(name)) is not None]
        return min(known, default=None)

    def reserved(self, model_name: str) -> int:
        return self._models.max_tokens(model_name)

    def counter(self, model_name: str) -> TokenCounter:
        """The one counter for requests to this model (rule B1)."""
        if model_name not in self._counters:
            self._counters[model_name] = counter_for(
                self._built_or_none(model_name), self._settings.token_counter
            )
        return self._counters[model_name]

    async def automatic(self, job: CompactionJob) -> Prepared | None:
        if not self._settings.enabled or is_spent():
            return None
        try:
            outcome = await self._compact(job, self._refuse_while_waiting)
        except _BreakerOpen:
            return None
        except SummaryGenerationError as error:
            log.warning("automatic compaction of thread %s failed, the run goes on: %s", job.thread_id, error)
            return None
        except Exception:  # rule E5: no failure of a compaction may end the run
            log.exception("automatic compaction of thread %s failed, the run goes on", job.thread_id)
            return None
        if not isinstance(outcome, Prepared):
            return None
        self.completed(job, outcome)
        return outcome

    async def recover(self, job: CompactionJob) -> Prepared | None:
        if not self._settings.enabled or is_spent():
            return None
        try:
            outcome = await self._compact(job)
        except (SummaryGenerationError, CompactionInvariantError) as error:
            log.warning("recovery of thread %s from an overflow failed: %s", job.thread_id, error)
            return None
        except Exception:  # what the run is told of is the overflow
            log.exception("recovery of thread %s from an overflow failed", job.thread_id)
            return None
        return outcome if isinstance(outcome, Prepared) else None

    async def manual(self, job: CompactionJob) -> Prepared | Skipped:
        return await self._compact(job)

    async def draft(self, job: CompactionJob, store: Finish) -> Prepared | Skipped:
        """As ``manual``, but the compaction is only given to ``store``: it is not begun, and no hook is told."""
        return await self._attempt(job, store)

    def completed(self, job: CompactionJob, prepared: Prepared) -> None:
        record = committing(job, prepared.compaction_id, prepared.compaction)
        announce(job, "completed", prepared.compaction_id, figures(record))

    async def abandon(self, job: CompactionJob, prepared: Prepared, error: str) -> None:
        begun = committing(job, prepared.compaction_id, prepared.compaction)
        record = replace(begun, status="failed", reason="not_committed", error=error)
        # Announced before it is stored: a stream loses what is said right before a step fails, as this one will.
        announce(job, "failed", prepared.compaction_id, figures(record))
        self._metrics.observe(record, "failed")
        await self._store.abandon(job.thread_id, prepared.compaction_id, error)

    async def committed(self, thread_id: str, compaction_id: str, before: str | None, after: str) -> None:
        """The checkpointer stored the compaction: only now has it happened."""
        record = await self._store.committed(thread_id, compaction_id, before, after)
        if record:
            self._metrics.observe(record, "committed")

    async def describe(self, job: CompactionJob) -> str:
        context = replace(job.context, pinned=await self.pinned(job))
        return what_fills(context, self.counter(job.model_name))

    async def pinned(self, job: CompactionJob) -> frozenset[str]:
        """Ids of the messages that must stay. Nobody pins what a subagent says inside a run."""
        return frozenset() if job.checkpoint_ns else await self._pins.ids(job.thread_id)

    async def _compact(
        self, job: CompactionJob, check: Callable[[CompactionJob], Any] | None = None
    ) -> Prepared | Skipped:
        return await self._attempt(job, self.prepare, check)

    async def _attempt(
        self, job: CompactionJob, finish: Finish, check: Callable[[CompactionJob], Any] | None = None
    ) -> Prepared | Skipped:
        compaction_id = str(uuid.uuid4())
        begun: list[Plan] = []
        scope = ExitStack()

        async def on_start(plan: Plan) -> None:
            if check:
                await check(job)
            begun.append(plan)
            # Most calls of the hook end before this: only what has begun is worth a span.
            scope.enter_context(span("compaction", _attributes(job, compaction_id)))
            announce(job, "started", compaction_id, {"tokens_before": plan.tokens_before})

        try:
            with scope:
                outcome = await self._run_pipeline(job, on_start)
                if isinstance(outcome, Compaction):
                    return await finish(job, compaction_id, outcome)
        except _BreakerOpen:
            raise
        except (
            Exception
        ) as error:  # whatever it is: who saw it begin is told of the end, and it counts (rule E3)
            plan = begun[0] if begun else None
            await self._note_failure(job, failed(job, compaction_id, error, plan))
            raise
        await self._note_skip(job, compaction_id, outcome)
        return outcome

    async def _run_pipeline(self, job: CompactionJob, on_start: Any) -> Compaction | Skipped:
        work = compact(
            job.context,
            self.policy_for(job),
            self.counter(job.model_name),
            self._candidates(job.model_name),
            kind=job.kind,
            force=job.force,
            instructions=job.instructions,
            health=self._health,
            is_overflow=self.is_overflow,
            on_start=on_start,
            pins=partial(self.pinned, job),
        )
        return await charged(work)

    def _candidates(self, model_name: str) -> list[Candidate]:
        """Rule E0: the configured summariser, then the run's own model; each name once."""
        names = dict.fromkeys(name for name in (self._settings.model_name, model_name) if name)
        return [
            Candidate(name, partial(self._models.for_summary, name), self._models.window(name))
            for name in names
        ]

    async def prepare(
        self,
        job: CompactionJob,
        compaction_id: str,
        compaction: Compaction,
        first: InTransaction | None = None,
    ) -> Prepared:
        """The first half of a commit: hooks, archive and record. ``first`` is done first in its transaction. Raises
        MessagePinned."""
        await self._run_hooks(job, compaction_id, compaction)
        record = committing(job, compaction_id, compaction)
        seen_ids = [message.id for message in job.context.messages]
        removed = (*compaction.removed, *compaction.dropped)
        await self._store.begin(record, removed, seen_ids, compaction.waived_pins, first)
        return Prepared(compaction_id, compaction)

    async def _run_hooks(self, job: CompactionJob, compaction_id: str, compaction: Compaction) -> None:
        event = SummarizationEvent(
            job.thread_id,
            job.agent_name,
            compaction.removed,
            compaction.kept,
            job.runtime,
            job.agent_kind,
            compaction_id,
            job.model_name,
        )
        for hook in self._hooks:
            try:
                await hook(event)
            except Exception:  # rule F3: a hook that raises is logged by name and stops nothing
                log.exception("before_summarization hook %s failed", getattr(hook, "__qualname__", hook))

    async def _note_skip(self, job: CompactionJob, compaction_id: str, outcome: Skipped) -> None:
        """What nobody asked for and no model worked on leaves no trace: it happens before every model call."""
        if job.kind == "auto" and not outcome.models_tried:
            return
        await self._note(job, skipped(job, compaction_id, outcome), "skipped")
        if job.kind == "auto":
            # The summary was paid for and thrown away; asked again before every model call it would be again.
            await self._count_failure(job, outcome.reason)

    async def _note_failure(self, job: CompactionJob, record: CompactionRecord) -> None:
        await self._note(job, record, "failed")
        if job.kind == "auto":
            await self._count_failure(job, record.error or "")

    async def _note(
        self, job: CompactionJob, record: CompactionRecord, outcome: Literal["skipped", "failed"]
    ) -> None:
        # Announced before it is stored, for the same reason: after a failed recovery the step ends with an error.
        announce(job, outcome, record.compaction_id, figures(record))
        self._metrics.observe(record, outcome)
        await self._store.add(record)

    async def _count_failure(self, job: CompactionJob, error: str) -> None:
        """On the thread. A subagent's failures are counted from its records, and are not the thread's."""
        if job.checkpoint_ns:
            return
        await self._breakers.failed(
            job.thread_id, error, BREAKER_THRESHOLD, BREAKER_PAUSE_SECONDS, BREAKER_LONGEST_SECONDS
        )

    async def _refuse_while_waiting(self, job: CompactionJob) -> None:
        breaker = await self._breaker(job)
        if breaker.waiting:
            raise _BreakerOpen

    async def _breaker(self, job: CompactionJob) -> Breaker:
        if not job.checkpoint_ns:
            return await self._breakers.of_thread(job.thread_id)
        return await self._breakers.within(
            job.thread_id,
            job.checkpoint_ns,
            BREAKER_THRESHOLD,
            BREAKER_PAUSE_SECONDS,
            BREAKER_LONGEST_SECONDS,
        )

    def _built_or_none(self, model_name: str) -> Any:
        try:
            return self._models.get(model_name)
        except ModelError:
            return None


def _attributes(job: CompactionJob, compaction_id: str) -> dict[str, str | None]:
    return {
        "threadkeep.compaction_id": compaction_id,
        "threadkeep.thread_id": job.thread_id,
        "threadkeep.run_id": job.run_id,
        "threadkeep.compaction.kind": job.kind,
        "gen_ai.request.model": job.model_name,
    }
