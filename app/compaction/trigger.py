"""When a compaction starts: the policy made concrete for one context window, and the clauses that fire.

Rules A4 (fractions) and C1 (clauses are OR, ``>=`` fires).
"""

from __future__ import annotations

from dataclasses import dataclass

from app.compaction.types import CompactionPolicy, Context, ContextSize, TokenBreakdown


@dataclass(frozen=True, slots=True)
class Clause:
    """One clause of the trigger. ``tokens`` is its threshold in tokens; None for a clause on messages."""

    size: ContextSize
    tokens: int | None


@dataclass(frozen=True, slots=True)
class ResolvedPolicy:
    """A policy for one context window. ``keep_tokens`` is None when ``keep`` counts messages; ``target_tokens`` is
    what the request may hold after a compaction, None when no clause has a threshold in tokens."""

    policy: CompactionPolicy
    clauses: tuple[Clause, ...]
    keep: ContextSize
    keep_tokens: int | None
    target_tokens: int | None
    window: int | None
    warnings: tuple[str, ...]


def resolve(policy: CompactionPolicy, window: int | None, reserved_output: int = 0) -> ResolvedPolicy:
    """Makes a policy concrete for a window of tokens (rule A4)."""
    raise NotImplementedError


def fired(resolved: ResolvedPolicy, breakdown: TokenBreakdown, message_count: int) -> Clause | None:
    """The first clause that fires, or None (rule C1)."""
    raise NotImplementedError


def message_count(context: Context) -> int:
    """Messages of the request; the live summary counts as one (rule B2)."""
    return len(context.messages) + (1 if context.summary else 0)


def next_trigger_tokens(resolved: ResolvedPolicy) -> int | None:
    """The smallest threshold in tokens, or None when no clause has one."""
    return min((c.tokens for c in resolved.clauses if c.tokens is not None), default=None)
