"""Choosing one cut among the allowed ones (rule C2)."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate

from app.compaction.history import History
from app.compaction.protected import Protection
from app.compaction.roles import is_ai, is_real_user_message


@dataclass(frozen=True, slots=True)
class Weights:
    """What a cut leaves, by cut: ``tail`` tokens behind it, ``rescued`` tokens of protected messages before
    it, ``removable`` messages before it."""

    tail: tuple[int, ...]
    rescued: tuple[int, ...]
    removable: tuple[int, ...]

    @classmethod
    def of(cls, costs: Sequence[int], protection: Protection) -> Weights:
        """Superseded reminders weigh nothing anywhere: they are dropped."""
        live = [0 if i in protection.superseded else cost for i, cost in enumerate(costs)]
        protected = [cost if i in protection.reasons else 0 for i, cost in enumerate(live)]
        free = [i not in protection.reasons and i not in protection.superseded for i in range(len(costs))]
        tail = tuple(accumulate(reversed(live), initial=0))[::-1]
        return cls(tail, tuple(accumulate(protected, initial=0)), tuple(accumulate(free, initial=0)))

    def kept(self, cut: int) -> int:
        """Tokens of all messages that the cut leaves."""
        return self.tail[cut] + self.rescued[cut]


@dataclass(frozen=True, slots=True)
class Wish:
    """What ``keep`` asks for: the messages from ``start`` on, and the allowed ``cut`` for that."""

    start: int
    cut: int


def wished_cut(weights: Weights, cuts: Sequence[int], keep_messages: int | None, keep_tokens: float) -> Wish:
    """The cut that ``keep`` asks for, moved to an allowed one: 0 when it covers everything that is removable.

    The newest ``keep_messages`` are kept or more; or, where that is None, the longest suffix within
    ``keep_tokens``, but at least the last message with what it belongs to."""
    length = len(weights.tail) - 1
    if keep_messages is not None:
        wish = max(0, length - keep_messages)
        return Wish(wish, cuts[bisect_right(cuts, wish) - 1])
    wish = next(cut for cut, tokens in enumerate(weights.tail) if tokens <= keep_tokens)
    if weights.removable[wish] == 0:
        return Wish(0, 0)
    return Wish(wish, cuts[min(bisect_left(cuts, wish), len(cuts) - 1)])


def shrunk_cut(weights: Weights, cuts: Sequence[int], start: int, floor: int, budget: float) -> int:
    """The first allowed cut from ``start`` on that leaves at most ``budget`` tokens, else the last one up to
    ``floor``: ``keep`` is a wish (rule C2)."""
    later = cuts[bisect_left(cuts, start) : bisect_right(cuts, floor)]
    return next((cut for cut in later if weights.kept(cut) <= budget), later[-1] if later else start)


def last_exchange(history: History, cuts: Sequence[int]) -> int:
    """The last allowed cut that keeps the last complete exchange whole: the newest message of a model that
    waits for no result, with its calls and results, and at most one real user message behind it."""
    said = 0
    for index in range(len(history) - 1, -1, -1):
        message = history.messages[index]
        if is_ai(message) and index != history.pending:
            return cuts[bisect_right(cuts, index) - 1]
        said += is_real_user_message(message)
        if said > 1:
            break
    return cuts[-1]
