"""Which messages a compaction removes and which stay (rules C2-C6)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from langchain_core.messages import BaseMessage

from app.compaction.cuts import Weights, Wish, last_exchange, shrunk_cut, wished_cut
from app.compaction.history import History
from app.compaction.invariants import allowed_cuts
from app.compaction.protected import Protection, protection
from app.compaction.tokens import TokenCounter
from app.compaction.trigger import ResolvedPolicy


@dataclass(frozen=True, slots=True)
class Partition:
    """A history divided: ``removed`` is summarised, ``kept`` stays verbatim, ``dropped`` are superseded
    reminders.

    Each keeps the order of the history. ``why`` maps a message id to one word, which is part of the public
    contract: ``system reminder newest_user_message pinned pending_tool_call tool_pair tail`` (kept),
    ``older_than_keep over_target pin_over_budget`` (removed), ``superseded_reminder`` (dropped).
    ``tool_pair`` stays because it must not be parted from a message that stays for another reason.
    ``waived_pins`` are ids of pinned messages that go all the same: there is no room for them in the budget."""

    removed: tuple[BaseMessage, ...]
    kept: tuple[BaseMessage, ...]
    dropped: tuple[BaseMessage, ...]
    why: Mapping[str, str]
    waived_pins: frozenset[str] = frozenset()


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
    What ``keep`` asks for is shrunk, group by group, until the request fits the policy's target, at most down
    to the last complete exchange (rule C2). ``target_tokens`` overrides that target and goes down to the last
    message with its group, for a request that did not fit (rule E7). ``scale`` is true tokens / estimated
    tokens, as ``TokenBreakdown.scale`` has it: budgets are true tokens, counts are estimates.
    """
    history = History.of(messages)
    costs = [counter.message(message) for message in messages]
    guarded = protection(history, costs, pinned, resolved.policy.pin_budget_tokens)
    weights = Weights.of(costs, guarded)
    cuts = allowed_cuts(history)
    wish = _wish(resolved, weights, cuts, scale)
    cut = wish.cut
    target = resolved.target_tokens if target_tokens is None else target_tokens
    if target is not None:
        floor = cuts[-1] if target_tokens is not None else last_exchange(history, cuts)
        # Where the wish gives the exchange up by itself there is none to hold the cut, now or the next time.
        floor = floor if cut <= floor else cuts[-1]
        cut = shrunk_cut(weights, cuts, cut, floor, target / scale - fixed_tokens)
    return _divide(history, guarded, wish, cut) if weights.removable[cut] else None


def _wish(resolved: ResolvedPolicy, weights: Weights, cuts: Sequence[int], scale: float) -> Wish:
    if resolved.keep_tokens is None:
        return wished_cut(weights, cuts, int(resolved.keep.value), 0)
    return wished_cut(weights, cuts, None, resolved.keep_tokens / scale)


def _divide(history: History, guarded: Protection, wish: Wish, cut: int) -> Partition:
    removed, kept, dropped = [], [], []
    why: dict[str, str] = {}
    for index, message in enumerate(history.messages):
        word = _word(history, guarded, wish, cut, index)
        if message.id is not None:
            why[message.id] = word
        match word:
            case "superseded_reminder":
                dropped.append(message)
            case "older_than_keep" | "over_target" | "pin_over_budget":
                removed.append(message)
            case _:
                kept.append(message)
    gone = {message.id for message in (*removed, *dropped)}
    waived = frozenset(id for i in guarded.over_budget if (id := history.messages[i].id) in gone and id)
    return Partition(tuple(removed), tuple(kept), tuple(dropped), why, waived)


def _word(history: History, guarded: Protection, wish: Wish, cut: int, index: int) -> str:
    if index in guarded.superseded:
        return "superseded_reminder"
    if index in guarded.reasons:
        return guarded.reasons[index]
    if index >= cut:
        return _why_behind(history, wish, index)
    if index in guarded.over_budget:
        return "pin_over_budget"
    return "older_than_keep" if index < wish.cut else "over_target"


def _why_behind(history: History, wish: Wish, index: int) -> str:
    """Behind the cut stands what ``keep`` asks for, and what must not be parted from that."""
    if history.pending is not None and index >= history.pending:
        return "pending_tool_call"
    return "tail" if index >= wish.start else "tool_pair"
