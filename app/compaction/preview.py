"""What a compaction would do, message by message, without a model (the dry run ``plan``)."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from langchain_core.messages import BaseMessage

from app.compaction.history import History
from app.compaction.planning import plan, tokens_after
from app.compaction.protected import protection
from app.compaction.tokens import TokenCounter
from app.compaction.tokens.cost import MESSAGE_OVERHEAD
from app.compaction.types import CompactionPolicy, Context, Skipped, SkipReason
from app.compaction.verify import verify

NO_COMPACTION = "no_compaction"


@dataclass(frozen=True, slots=True)
class Verdict:
    """What becomes of one message. ``why`` is a word of ``Partition.why``, or ``no_compaction``."""

    message_id: str
    why: str


@dataclass(frozen=True, slots=True)
class Preview:
    """What a compaction by hand would do now, or the ``reason`` why it would do nothing.

    Tokens count the whole request. ``tokens_after_estimate`` is the most that a compaction would leave:
    it supposes the longest summary that may be written, or the least gain for which one is kept; ``tokens_before`` when
    nothing would be done.
    """

    reason: SkipReason | None
    tokens_before: int
    tokens_after_estimate: int
    remove: tuple[Verdict, ...]
    keep: tuple[Verdict, ...]


def preview(context: Context, policy: CompactionPolicy, counter: TokenCounter, *, force: bool) -> Preview:
    """The plan that ``pipeline.compact`` would follow on the same context, with a word for every message.

    Raises CompactionInvariantError where the compaction itself would (rule C7).
    """
    planned = plan(context, policy, counter, force=force, kind="manual")
    if isinstance(planned, Skipped):
        return _nothing(context, policy, counter, planned)
    parted = planned.partition
    verify(context.messages, parted, context.pinned)
    gone = {message.id for message in (*parted.removed, *parted.dropped)}
    longest = tokens_after(
        context, parted.kept, planned.max_summary_tokens + MESSAGE_OVERHEAD, counter, planned.scale
    )
    verdicts = [Verdict(message.id or "", parted.why[message.id or ""]) for message in context.messages]
    return Preview(
        reason=None,
        tokens_before=planned.tokens_before,
        tokens_after_estimate=min(
            longest, math.floor(planned.tokens_before * (1 - policy.min_gain_fraction))
        ),
        remove=tuple(verdict for verdict in verdicts if verdict.message_id in gone),
        keep=tuple(verdict for verdict in verdicts if verdict.message_id not in gone),
    )


def _nothing(context: Context, policy: CompactionPolicy, counter: TokenCounter, skipped: Skipped) -> Preview:
    words = _protected(context.messages, context.pinned, policy, counter)
    return Preview(
        reason=skipped.reason,
        tokens_before=skipped.tokens_before,
        tokens_after_estimate=skipped.tokens_before,
        remove=(),
        keep=tuple(
            Verdict(message.id or "", words.get(index, NO_COMPACTION))
            for index, message in enumerate(context.messages)
        ),
    )


def _protected(
    messages: Sequence[BaseMessage], pinned: frozenset[str], policy: CompactionPolicy, counter: TokenCounter
) -> dict[int, str]:
    costs = [counter.message(message) for message in messages]
    return dict(protection(History.of(messages), costs, pinned, policy.pin_budget_tokens).reasons)
