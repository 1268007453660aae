"""What becomes of a draft on the thread as it is when the draft is applied."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from dataclasses import replace

from app.compaction.cover import Digest, changes, divided
from app.compaction.plain import plain
from app.compaction.planning import tokens_after
from app.compaction.tokens import TokenCounter
from app.compaction.types import Compaction, CompactionPolicy, ModelAttempt
from app.compaction.verify import verify
from app.errors import CompactionInvariantError, DraftStale, InvalidInput
from app.persistence.compactions import CompactionRecord
from app.persistence.drafts import Draft
from app.ports import CompactionJob
from app.services.compaction.report import committing

# A person may say more than a model is asked to, but not so much that it undoes the compaction.
_MOST_TIMES_A_SUMMARY = 4


def summary_digest(summary: str | None) -> str | None:
    """Identifies a summary; None when there is none."""
    return hashlib.sha256(summary.encode("utf-8", "replace")).hexdigest() if summary else None


def drafted(job: CompactionJob, compaction_id: str, compaction: Compaction) -> CompactionRecord:
    """The record of a draft."""
    return replace(committing(job, compaction_id, compaction), status="draft")


def checked_text(text: str | None, policy: CompactionPolicy, counter: TokenCounter) -> str | None:
    """A person's summary as it may be stored; None for none. Raises InvalidInput for a blank one, and for one of more
    than four times ``max_summary_tokens``."""
    if text is None:
        return None
    # Letters without a width are no text either.
    if not any(letter.isprintable() and not letter.isspace() for letter in text):
        raise InvalidInput("summary_text: must not be blank")
    most = _MOST_TIMES_A_SUMMARY * policy.max_summary_tokens
    if (tokens := counter.text(text)) > most:
        raise InvalidInput(
            f"summary_text: has {tokens} tokens, at most {most} are allowed "
            f"({_MOST_TIMES_A_SUMMARY} times summarization.max_summary_tokens)"
        )
    return plain(policy.redact(text.strip()))


def refuse_stale(draft: Draft, job: CompactionJob, pinned: frozenset[str], digest: Digest) -> None:
    """Raises DraftStale, saying what changed, when what the draft covers is not what it was: a message, its place, the
    summary, the last compaction; or when it would remove what must stay now."""
    found = [*_changes(draft, job, digest)] or [*_conflicts(draft, job, pinned)]
    if found:
        raise DraftStale(f"Draft {draft.compaction_id} does not fit the thread any more: {'; '.join(found)}")


def _changes(draft: Draft, job: CompactionJob, digest: Digest) -> Iterator[str]:
    yield from changes(draft.cover, job.context.messages, digest)
    if job.previous_id != draft.marker:
        yield "the thread was compacted, or a compaction of it undone, since"
    elif summary_digest(job.context.summary) != draft.summary_digest:
        yield "the summary is another one"


def _conflicts(draft: Draft, job: CompactionJob, pinned: frozenset[str]) -> Iterator[str]:
    """A late result of a call that goes, for example, or a pin."""
    messages = job.context.messages
    try:
        verify(messages, divided(draft.cover, messages), pinned)
    except CompactionInvariantError as error:
        yield str(error)


def applied(
    draft: Draft, record: CompactionRecord, job: CompactionJob, text: str | None, counter: TokenCounter
) -> Compaction:
    """The draft as a compaction of the thread as it is now. ``text`` replaces the draft's summary."""
    context, parted = job.context, divided(draft.cover, job.context.messages)
    summary = text or record.summary_text or ""
    before, estimate = counter.breakdown(context).total, counter.estimate(context).total
    scale = before / estimate if estimate else 1.0
    return Compaction(
        removed=parted.removed,
        kept=parted.kept,
        dropped=parted.dropped,
        summary=summary,
        tokens_before=before,
        tokens_after=tokens_after(context, parted.kept, counter.summary(summary), counter, scale),
        coverage=record.coverage or 0.0,
        model_name=record.model_name,
        models_tried=tuple(ModelAttempt(**attempt) for attempt in record.models_tried),
        usage=record.usage,
        duration_ms=record.duration_ms,
        trigger=record.trigger,
        extractive=record.extractive,
        edited=summary != record.summary_text or record.edited,
        waived_pins=parted.waived_pins,
    )
