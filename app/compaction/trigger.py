"""When a compaction starts: the policy made concrete for one context window, and the clauses that fire.

Rules A4 (fractions) and C1 (clauses are OR, ``>=`` fires).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from app.compaction.types import DEFAULT_KEEP, CompactionPolicy, Context, ContextSize, TokenBreakdown

NEARLY_FULL = 0.9
"""The share of the window from which on an undo does not hold compaction off any more."""


@dataclass(frozen=True, slots=True)
class Clause:
    """One clause of the trigger. ``tokens`` is its threshold in tokens; None for a clause on messages."""

    size: ContextSize
    tokens: int | None


@dataclass(frozen=True, slots=True)
class ResolvedPolicy:
    """A policy for one context window. ``keep_tokens`` is None when ``keep`` counts messages;
    ``target_tokens`` is what the request may hold after a compaction, None when no clause has a threshold in
    tokens."""

    policy: CompactionPolicy
    clauses: tuple[Clause, ...]
    keep: ContextSize
    keep_tokens: int | None
    target_tokens: int | None
    window: int | None
    warnings: tuple[str, ...]


def resolve(policy: CompactionPolicy, window: int | None, reserved_output: int = 0) -> ResolvedPolicy:
    """Makes a policy concrete for a context window in tokens, or None when nobody knows it (rule A4).

    Without a window fraction clauses are dropped, each with a warning, and a fraction ``keep`` becomes the
    default one. ``reserved_output`` are the tokens that the reply reserves: they count against a window, so
    the target that comes from a fraction leaves room for them."""
    clauses = tuple(_clauses(policy, window))
    keep = _keep(policy, window)
    return ResolvedPolicy(
        policy=policy,
        clauses=clauses,
        keep=keep,
        keep_tokens=_tokens(keep, window),
        target_tokens=_target(policy, clauses, reserved_output),
        window=window,
        warnings=tuple(_warnings(policy, window, reserved_output)),
    )


def fired(resolved: ResolvedPolicy, breakdown: TokenBreakdown, message_count: int) -> Clause | None:
    """The first clause that fires, or None. One is enough, and reaching a threshold fires it (rule C1).

    The reply's reservation counts against fraction clauses only (rule B1)."""
    return next((clause for clause in resolved.clauses if _fires(clause, breakdown, message_count)), None)


def held_below(context: Context, breakdown: TokenBreakdown) -> int | None:
    """After an undo: the size of the request, in tokens as ``breakdown`` has them, from which on it may be compacted
    automatically again. Done again at the next call, the undo would have been none; but a request that, reply included,
    nearly fills the window cannot wait."""
    if context.hold_tokens is None:
        return None
    # The growth was foreseen in estimates, because what a provider reported before the undo is void (rule B3).
    grown = round(context.hold_tokens * breakdown.scale)
    if context.window is None:
        return grown
    return min(grown, int(NEARLY_FULL * context.window) - breakdown.reserved)


def held(context: Context, breakdown: TokenBreakdown) -> bool:
    """An undo keeps the automatic path from compacting this request."""
    limit = held_below(context, breakdown)
    return limit is not None and breakdown.total < limit


def message_count(context: Context) -> int:
    """Messages of the request; the live summary counts as one (rule B2)."""
    return len(context.messages) + (1 if context.summary else 0)


def next_trigger_tokens(resolved: ResolvedPolicy) -> int | None:
    """The smallest threshold in tokens, or None when no clause has one."""
    return min((c.tokens for c in resolved.clauses if c.tokens is not None), default=None)


def _fires(clause: Clause, breakdown: TokenBreakdown, message_count: int) -> bool:
    if clause.tokens is None:
        return message_count >= clause.size.value
    reserved = breakdown.reserved if clause.size.kind == "fraction" else 0
    return breakdown.total + reserved >= clause.tokens


def _clauses(policy: CompactionPolicy, window: int | None) -> Iterator[Clause]:
    for size in policy.trigger:
        tokens = _tokens(size, window)
        if tokens is not None or size.kind == "messages":
            yield Clause(size, tokens)


def _tokens(size: ContextSize, window: int | None) -> int | None:
    """The size in tokens; None for a number of messages and for a fraction of an unknown window."""
    match size.kind:
        case "tokens":
            return int(size.value)
        case "fraction":
            return max(1, int(size.value * window)) if window else None
        case "messages":
            return None


def _keep(policy: CompactionPolicy, window: int | None) -> ContextSize:
    if policy.keep.kind != "fraction" or window:
        return policy.keep
    triggers = [size.value for size in policy.trigger if size.kind == "messages"]
    smallest = min(triggers, default=None)
    if smallest is None or smallest > DEFAULT_KEEP.value:
        return DEFAULT_KEEP
    return ContextSize("messages", max(1, int(smallest) // 2))


def _target(policy: CompactionPolicy, clauses: tuple[Clause, ...], reserved_output: int) -> int | None:
    rooms = [
        clause.tokens - (reserved_output if clause.size.kind == "fraction" else 0)
        for clause in clauses
        if clause.tokens is not None
    ]
    return max(0, int(policy.target_fraction * min(rooms))) if rooms else None


def _warnings(policy: CompactionPolicy, window: int | None, reserved_output: int) -> Iterator[str]:
    fractions = [size for size in policy.trigger if size.kind == "fraction"]
    if window:
        for size in fractions:
            if reserved_output >= size.value * window:
                yield (
                    f"trigger fraction {size.value:g} of {window} tokens is always reached: "
                    f"max_tokens reserves {reserved_output} of them"
                )
        yield from _too_late(policy, window, reserved_output)
        return
    for size in fractions:
        yield f"trigger fraction {size.value:g} is ignored: no context_window is known for the model"
    if policy.keep.kind == "fraction":
        keep = _keep(policy, window)
        yield (
            f"keep fraction {policy.keep.value:g} becomes {keep.value:g} messages: "
            "no context_window is known for the model"
        )


def _too_late(policy: CompactionPolicy, window: int, reserved_output: int) -> Iterator[str]:
    """A fraction always fires before the window is full; an amount of tokens need not."""
    if any(size.kind == "fraction" for size in policy.trigger):
        return
    smallest = min((size.value for size in policy.trigger if size.kind == "tokens"), default=0)
    if smallest >= window - reserved_output:
        yield (
            f"trigger {smallest:g} tokens comes too late: the context window has {window} tokens, "
            f"of which max_tokens reserves {reserved_output} for the reply"
        )
