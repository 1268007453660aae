"""What a compaction would do, before any model is asked (rules C1, C2, C6, E7)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from langchain_core.messages import BaseMessage

from app.compaction.partition import Partition, partition
from app.compaction.tokens import TokenCounter
from app.compaction.trigger import Clause, ResolvedPolicy, fired, held, message_count, resolve
from app.compaction.types import (
    CompactionKind,
    CompactionPolicy,
    Context,
    Skipped,
    SkipReason,
    TokenBreakdown,
)

# A summary of this size can still say something; a target does not ask for less.
_MIN_SUMMARY_TOKENS = 64
_SUMMARY_SHARE_OF_TARGET = 0.5
_OVERFLOW_TARGET = 0.5


@dataclass(frozen=True, slots=True)
class Plan:
    """A compaction that may be made. ``trigger`` is the clause that fired, as text, or None.

    ``max_summary_tokens`` is what the summary may have. ``scale`` is the request's tokens / their estimate:
    tokens before may rest on a provider's figure, and tokens after are scaled alike to be comparable (B3).
    """

    partition: Partition = field(repr=False)
    tokens_before: int
    message_count: int
    trigger: str | None
    max_summary_tokens: int
    scale: float


@dataclass(frozen=True, slots=True)
class _Aim:
    """What is to be reached. ``target`` overrides the policy's target in tokens (None: it stands); ``scale``
    is the caution with which estimates are taken."""

    target: int | None
    scale: float
    max_summary_tokens: int


def plan(
    context: Context,
    policy: CompactionPolicy,
    counter: TokenCounter,
    *,
    force: bool,
    kind: CompactionKind = "auto",
) -> Plan | Skipped:
    """What a compaction would remove, or why there is nothing to do. Makes no model call.

    When nothing fires this only counts, at the cost of the new messages (rule B4). ``force`` and the kind
    ``overflow`` ignore the trigger; ``overflow`` aims at half of the request as well (rule E7).
    """
    resolved = resolve(policy, context.window, context.reserved_output)
    breakdown = counter.breakdown(context)
    count = len(context.messages)
    clause = fired(resolved, breakdown, message_count(context))
    if kind == "auto" and not force and held(context, breakdown):
        clause = None
    if clause is None and not force and kind != "overflow":
        return Skipped("below_threshold", breakdown.total, count)
    estimate = counter.estimate(context)
    scale = breakdown.total / estimate.total if estimate.total else 1.0
    aim = _aim(resolved, context, estimate, scale, kind)
    parted = partition(
        context.messages,
        resolved,
        counter,
        fixed_tokens=_fixed_tokens(context, counter) + aim.max_summary_tokens,
        pinned=context.pinned,
        target_tokens=aim.target,
        scale=aim.scale,
    )
    if parted is None:
        return Skipped(_why_nothing(context, resolved, estimate), breakdown.total, count)
    removed = counter.messages([*parted.removed, *parted.dropped])
    # The summary so far is no gain: the next one holds what it says as well.
    if kind != "overflow" and removed < policy.min_gain_fraction * estimate.total:
        return Skipped("insufficient_gain", breakdown.total, count)
    replaced = removed + estimate.summary
    most = aim.max_summary_tokens if kind != "overflow" else min(aim.max_summary_tokens, replaced // 2)
    return Plan(parted, breakdown.total, count, _text_of(clause), max(1, most), scale)


def tokens_after(
    context: Context,
    kept: Sequence[BaseMessage],
    summary_tokens: int,
    counter: TokenCounter,
    scale: float,
) -> int:
    """The request with ``kept`` and a summary of so many tokens in it, on the scale of the tokens before."""
    durable = context.durable_next or context.durable
    rest = replace(context, messages=kept, summary=None, durable=durable)
    return round((counter.estimate(rest).total + summary_tokens) * scale)


def _fixed_tokens(context: Context, counter: TokenCounter) -> int:
    """What every later request holds beside messages and summary."""
    durable = context.durable_next or context.durable
    return counter.estimate(replace(context, messages=(), summary=None, durable=durable)).total


def _aim(
    resolved: ResolvedPolicy, context: Context, estimate: TokenBreakdown, scale: float, kind: CompactionKind
) -> _Aim:
    # A provider's figure is void right after a compaction (rule B3). An estimate that it made smaller would
    # then look too large again, and a second compaction would find something to remove (rule C6).
    cautious = max(1.0, scale)
    if kind != "overflow":
        return _Aim(None, cautious, _summary_tokens(resolved, resolved.target_tokens, cautious))
    if context.window and estimate.total:
        # The provider just proved that the request is larger than the window.
        cautious = max(cautious, context.window / estimate.total)
    limits = (resolved.target_tokens, context.window and int(context.window * _OVERFLOW_TARGET))
    target = min([int(estimate.total * cautious * _OVERFLOW_TARGET), *(limit for limit in limits if limit)])
    return _Aim(target, cautious, _summary_tokens(resolved, target, cautious))


def _summary_tokens(resolved: ResolvedPolicy, target: int | None, scale: float) -> int:
    """The size of the summary: as configured, but never so large that it alone misses the target."""
    most = resolved.policy.max_summary_tokens
    if target is None:
        return most
    return min(most, max(_MIN_SUMMARY_TOKENS, int(target * _SUMMARY_SHARE_OF_TARGET / scale)))


def _why_nothing(context: Context, resolved: ResolvedPolicy, estimate: TokenBreakdown) -> SkipReason:
    """A thread that was never compacted and lies within ``keep`` is too short; any other has nothing left."""
    if context.summary is not None:
        return "nothing_to_remove"
    if resolved.keep_tokens is None:
        within_keep = len(context.messages) <= resolved.keep.value
    else:
        within_keep = estimate.messages <= resolved.keep_tokens
    return "not_enough_messages" if within_keep else "nothing_to_remove"


def _text_of(clause: Clause | None) -> str | None:
    return f"{clause.size.kind} >= {clause.size.value:g}" if clause else None
