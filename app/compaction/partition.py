"""Which messages a compaction removes and which stay (rules C2-C6)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from langchain_core.messages import BaseMessage

from app.compaction.tokens import TokenCounter
from app.compaction.trigger import ResolvedPolicy


@dataclass(frozen=True, slots=True)
class Partition:
    """A history divided: ``removed`` is summarised, ``kept`` stays verbatim, ``dropped`` are superseded reminders.

    Each keeps the order of the history. ``why`` maps a message id to one word: ``system reminder current_request
    pinned pending_call keep`` (kept), ``summarised pin_over_budget`` (removed), ``superseded_reminder`` (dropped)."""

    removed: tuple[BaseMessage, ...]
    kept: tuple[BaseMessage, ...]
    dropped: tuple[BaseMessage, ...]
    why: Mapping[str, str]


def partition(
    messages: Sequence[BaseMessage],
    resolved: ResolvedPolicy,
    counter: TokenCounter,
    *,
    fixed_tokens: int,
    pinned: frozenset[str] = frozenset(),
    target_tokens: int | None = None,
    scale: float = 1.0,
) -> Partition | None:
    """Divides a history. None: nothing is removable (rule C6).

    ``fixed_tokens`` are the tokens of everything that is not messages, room for the new summary included.
    ``target_tokens`` overrides the policy's target (rule E7: stricter). ``scale`` is true tokens / estimated tokens
    (``TokenBreakdown.scale``)."""
    raise NotImplementedError
