"""How an undo or a redo is told: as a record (rule F4) and as an answer."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

from langchain_core.messages import BaseMessage

from app.persistence.compactions import CompactionRecord
from app.services.compaction.manual import Target
from app.services.ids import new_id


@dataclass(frozen=True, slots=True)
class Change:
    """What an undo or a redo makes of a thread. ``moved`` are the messages that come back, or go again."""

    kind: Literal["undo", "redo"]
    of: CompactionRecord
    messages: Sequence[BaseMessage] = field(repr=False)
    moved: Sequence[BaseMessage] = field(repr=False)
    summary: str | None = field(repr=False)
    tokens_before: int
    tokens_after: int
    hold_tokens: int | None = None


def record_of(change: Change, target: Target, previous_id: str | None, duration_ms: int) -> CompactionRecord:
    """The record of what is about to be written. ``previous_id`` is the record whose marker stands in the state."""
    again = change.kind == "redo"
    return CompactionRecord(
        compaction_id=new_id(),
        thread_id=target.thread_id,
        run_id=None,
        kind=change.kind,
        status="committing",
        tokens_before=change.tokens_before,
        tokens_after=change.tokens_after,
        removed_message_count=len(change.moved) if again else 0,
        preserved_message_count=len(change.messages),
        model_name=change.of.model_name if again else None,
        coverage=change.of.coverage if again else None,
        extractive=change.of.extractive and again,
        summary_text=change.summary,
        duration_ms=duration_ms,
        agent_name=target.graph_name,
        previous_id=previous_id,
        target_id=change.of.compaction_id,
    )


def answer(record: CompactionRecord, change: Change, checkpoint_id: str) -> dict[str, Any]:
    """It is written; ``checkpoint_id`` holds it. ``total_tokens`` are those before."""
    return {
        "thread_id": record.thread_id,
        "compaction_id": record.compaction_id,
        "target_id": record.target_id,
        "kind": record.kind,
        "restored_message_count": len(change.moved) if change.kind == "undo" else 0,
        "removed_message_count": record.removed_message_count,
        "preserved_message_count": record.preserved_message_count,
        "summary_updated": True,
        "checkpoint_id": checkpoint_id,
        "total_tokens": record.tokens_before,
        "tokens_after": record.tokens_after,
        "duration_ms": record.duration_ms,
    }
