"""How the outcome of a compaction is told: as a record and as a stream event (rule F4)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, Literal

from app.compaction.failures import describe
from app.compaction.history import History
from app.compaction.pins import pin_prices
from app.compaction.pipeline import Plan
from app.compaction.protected import newest_user_message
from app.compaction.tokens import TokenCounter
from app.compaction.types import Compaction, Context, ModelAttempt, Skipped
from app.errors import SummaryGenerationError, ThreadkeepError
from app.persistence.compactions import CompactionRecord
from app.ports import CompactionJob

EVENT_TYPE = "context_compaction"
Progress = Literal["started", "completed", "skipped", "failed"]


def announce(job: CompactionJob, status: Progress, compaction_id: str, figures: Mapping[str, Any]) -> None:
    """Send a ``custom`` stream event to the clients of the run, if the compaction belongs to one."""
    if job.emit is None:
        return
    job.emit(
        {
            "type": EVENT_TYPE,
            "status": status,
            "compaction_id": compaction_id,
            "thread_id": job.thread_id,
            "kind": job.kind,
            **figures,
        }
    )


def committing(job: CompactionJob, compaction_id: str, compaction: Compaction) -> CompactionRecord:
    return CompactionRecord(
        compaction_id=compaction_id,
        **_whose(job),
        status="committing",
        tokens_before=compaction.tokens_before,
        tokens_after=compaction.tokens_after,
        removed_message_count=len(compaction.removed) + len(compaction.dropped),
        preserved_message_count=len(compaction.kept),
        model_name=compaction.model_name,
        models_tried=_attempts(compaction.models_tried),
        trigger=compaction.trigger,
        coverage=compaction.coverage,
        duration_ms=compaction.duration_ms,
        usage=compaction.usage,
        instructions=job.instructions,
        summary_text=compaction.summary,
        extractive=compaction.extractive,
        edited=compaction.edited,
    )


def skipped(job: CompactionJob, compaction_id: str, outcome: Skipped) -> CompactionRecord:
    return CompactionRecord(
        compaction_id=compaction_id,
        **_whose(job),
        status="skipped",
        reason=outcome.reason,
        tokens_before=outcome.tokens_before,
        tokens_after=outcome.tokens_before,
        preserved_message_count=outcome.message_count,
        models_tried=_attempts(outcome.models_tried),
        duration_ms=outcome.duration_ms,
        usage=outcome.usage,
        instructions=job.instructions,
    )


def failed(
    job: CompactionJob,
    compaction_id: str,
    error: Exception,
    plan: Plan | None,
) -> CompactionRecord:
    """``plan`` is what would have been done, None when not even that could be found out."""
    known = error if isinstance(error, ThreadkeepError) else ThreadkeepError(describe(error))
    record = CompactionRecord(
        compaction_id=compaction_id,
        **_whose(job),
        status="failed",
        reason=known.code,
        error=known.detail,
        tokens_before=plan.tokens_before if plan else 0,
        preserved_message_count=len(job.context.messages),
        trigger=plan.trigger if plan else None,
        instructions=job.instructions,
    )
    if not isinstance(error, SummaryGenerationError):
        return record
    return replace(
        record,
        models_tried=_attempts(error.models_tried),
        duration_ms=error.duration_ms,
        usage=error.usage,
    )


def _whose(job: CompactionJob) -> dict[str, Any]:
    return {
        "thread_id": job.thread_id,
        "run_id": job.run_id,
        "agent_name": job.agent_name,
        "checkpoint_ns": job.checkpoint_ns,
        "kind": job.kind,
        "previous_id": job.previous_id,
    }


def figures(record: CompactionRecord) -> Mapping[str, Any]:
    """What an event tells beside its status."""
    return {name: getattr(record, name) for name in _FIGURES}


_FIGURES = (
    "reason",
    "error",
    "model_name",
    "tokens_before",
    "tokens_after",
    "removed_message_count",
    "preserved_message_count",
    "coverage",
    "duration_ms",
    "trigger",
    "extractive",
)


def what_fills(context: Context, counter: TokenCounter) -> str:
    """What fills the context window, part by part, in words (rule E7)."""
    parts = counter.breakdown(context)
    newest = newest_user_message(History.of(context.messages))
    asked = 0 if newest is None else round(counter.message(context.messages[newest]) * parts.scale)
    said = None if newest is None else context.messages[newest].id
    prices = pin_prices(context.messages, sorted(context.pinned - {said}), counter)
    pinned = round(sum(prices.values()) * parts.scale)
    named = {
        "system prompt": parts.system,
        "tools": parts.tools,
        "summary": parts.summary,
        "durable context": parts.durable,
        "the newest user message": asked,
        "pinned messages": pinned,
        "the other messages": parts.messages - asked - pinned,
        "reserved for the reply": parts.reserved,
    }
    shown = ", ".join(f"{name} {tokens}" for name, tokens in named.items() if tokens > 0)
    window = f" of a window of {context.window}" if context.window else ""
    return f"about {parts.total} tokens{window} ({shown})"


def _attempts(attempts: Sequence[ModelAttempt]) -> list[dict[str, Any]]:
    return [{"name": attempt.name, "error": attempt.error} for attempt in attempts]
