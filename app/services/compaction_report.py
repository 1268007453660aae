"""How the outcome of a compaction is told: as a record and as a stream event (rule F4)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Literal

from app.compaction.types import Compaction, ModelAttempt, Skipped
from app.errors import SummaryGenerationError
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
        thread_id=job.thread_id,
        run_id=job.run_id,
        kind=job.kind,
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
    )


def skipped(job: CompactionJob, compaction_id: str, outcome: Skipped) -> CompactionRecord:
    return CompactionRecord(
        compaction_id=compaction_id,
        thread_id=job.thread_id,
        run_id=job.run_id,
        kind=job.kind,
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


def failed(job: CompactionJob, compaction_id: str, error: SummaryGenerationError) -> CompactionRecord:
    return CompactionRecord(
        compaction_id=compaction_id,
        thread_id=job.thread_id,
        run_id=job.run_id,
        kind=job.kind,
        status="failed",
        reason=error.code,
        error=error.detail,
        preserved_message_count=len(job.context.messages),
        models_tried=_attempts(error.models_tried),
        duration_ms=error.duration_ms,
        usage=error.usage,
        instructions=job.instructions,
    )


def _attempts(attempts: Sequence[ModelAttempt]) -> list[dict[str, Any]]:
    return [{"name": attempt.name, "error": attempt.error} for attempt in attempts]
