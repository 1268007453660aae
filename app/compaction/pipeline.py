"""The one function that the hook, the route, the recovery from an overflow and the bench call.

Plan (trigger, partition), summarize (candidates, gate), check. The outcome is a value; writing it is the
caller's business, and nothing is changed here.
"""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, replace

from app.compaction.calls import SummaryTask
from app.compaction.extractive import extractive_summary
from app.compaction.failures import is_context_overflow
from app.compaction.plain import plain
from app.compaction.planning import Plan, plan, tokens_after
from app.compaction.reading import Reader
from app.compaction.summarize import CandidateHealth, Summary, summarize
from app.compaction.tokens import TokenCounter
from app.compaction.types import (
    Candidate,
    Compaction,
    CompactionKind,
    CompactionPolicy,
    Context,
    ModelAttempt,
    Skipped,
)
from app.compaction.verify import verify
from app.errors import SummaryGenerationError

__all__ = ["Plan", "compact", "plan"]


async def compact(
    context: Context,
    policy: CompactionPolicy,
    counter: TokenCounter,
    candidates: Sequence[Candidate],
    *,
    kind: CompactionKind = "auto",
    force: bool = False,
    instructions: str | None = None,
    health: CandidateHealth | None = None,
    is_overflow: Callable[[BaseException], bool] = is_context_overflow,
    on_start: Callable[[Plan], Awaitable[None]] | None = None,
    pins: Callable[[], Awaitable[frozenset[str]]] | None = None,
) -> Compaction | Skipped:
    """Compacts a context, or says why not. ``context`` itself is left alone.

    ``force`` ignores the trigger. The kind ``overflow`` does as well, aims lower, and falls back on a summary
    without a model where the policy allows it (rule E7). ``instructions`` are the focus of a manual call.
    ``health`` remembers candidates that cannot be built; ``is_overflow`` says whether a model's error means
    too long a request; ``on_start`` is awaited before the first model call, and what it raises goes through.
    ``pins`` are looked up when a compaction is due, which spares every other call the question.

    Raises SummaryGenerationError or SummaryTimeout when no candidate can summarise, CompactionInvariantError
    when the plan would break the history (rule C7).
    """
    started = time.perf_counter()
    planned = plan(context, policy, counter, force=force, kind=kind)
    if pins and not _is_below_threshold(planned) and (pinned := await pins()):
        context = replace(context, pinned=context.pinned | pinned)
        planned = plan(context, policy, counter, force=force, kind=kind)
    if isinstance(planned, Skipped):
        return replace(planned, duration_ms=_milliseconds(started))
    verify(context.messages, planned.partition, context.pinned)
    if on_start:
        await on_start(planned)
    job = _Job(context, policy, counter, planned, kind)
    try:
        summary = await summarize(job.task(instructions, is_overflow), candidates, health)
    except SummaryGenerationError as error:
        if not job.may_copy:
            error.duration_ms = _milliseconds(started)
            raise
        outcome = job.outcome(job.copied(error.models_tried, error.usage))
    else:
        outcome = job.outcome(summary)
        if isinstance(outcome, Skipped) and job.may_copy:
            outcome = job.outcome(job.copied(summary.attempts, summary.usage))
    return replace(outcome, duration_ms=_milliseconds(started))


def _is_below_threshold(planned: Plan | Skipped) -> bool:
    return isinstance(planned, Skipped) and planned.reason == "below_threshold"


@dataclass(frozen=True, slots=True)
class _Job:
    context: Context
    policy: CompactionPolicy
    counter: TokenCounter
    plan: Plan
    kind: CompactionKind

    @property
    def may_copy(self) -> bool:
        """Whether a summary without a model may stand in (rule E7)."""
        return self.kind == "overflow" and self.policy.overflow_fallback == "extractive"

    @property
    def _previous(self) -> str | None:
        """The summary so far: one from before, or that a person wrote, may hold what no summary should."""
        return self.context.summary and self.policy.redact(self.context.summary)

    def task(self, instructions: str | None, is_overflow: Callable[[BaseException], bool]) -> SummaryTask:
        return SummaryTask(
            reader=Reader(self.plan.partition.removed, self.counter.text, self.policy.redact),
            previous=self._previous,
            policy=self.policy,
            max_tokens=self.plan.max_summary_tokens,
            count=self.counter.text,
            instructions=instructions and self.policy.redact(instructions),
            is_overflow=is_overflow,
        )

    def copied(self, attempts: tuple[ModelAttempt, ...], usage: Mapping[str, int]) -> Summary:
        """A summary that no model wrote; as no model read the messages, its coverage is 0."""
        text = extractive_summary(
            self.plan.partition.removed,
            self._previous,
            self.plan.max_summary_tokens,
            self.counter.text,
            self.policy.redact,
        )
        return Summary(text, 0.0, None, attempts, usage, extractive=True)

    def outcome(self, summary: Summary) -> Compaction | Skipped:
        """The compaction with this summary, unless it gains too little (rule E4)."""
        text = plain(self.policy.redact(summary.text))
        before, after = self.plan.tokens_before, self._tokens_after(text)
        parted = self.plan.partition
        least = 1 if self.kind == "overflow" else max(1.0, before * self.policy.min_gain_fraction)
        if before - after < least:
            return Skipped(
                "insufficient_gain",
                before,
                self.plan.message_count,
                models_tried=summary.attempts,
                usage=summary.usage,
            )
        return Compaction(
            removed=parted.removed,
            kept=parted.kept,
            dropped=parted.dropped,
            summary=text,
            tokens_before=before,
            tokens_after=after,
            coverage=summary.coverage,
            model_name=summary.model_name,
            models_tried=summary.attempts,
            usage=summary.usage,
            trigger=self.plan.trigger,
            extractive=summary.extractive,
            waived_pins=parted.waived_pins,
        )

    def _tokens_after(self, summary: str) -> int:
        size = self.counter.summary(summary)
        return tokens_after(self.context, self.plan.partition.kept, size, self.counter, self.plan.scale)


def _milliseconds(started: float) -> int:
    return round((time.perf_counter() - started) * 1000)
