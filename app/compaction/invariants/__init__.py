"""Where a history may be cut: everywhere that no invariant forbids (rule C3).

A new invariant is a file with a class and its place in ``INVARIANTS``."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import accumulate
from typing import Final

from app.compaction.history import History
from app.compaction.invariants.base import CutInvariant
from app.compaction.invariants.last_message import LastMessage
from app.compaction.invariants.pairs import Pairs
from app.compaction.invariants.pending import PendingCall
from app.compaction.invariants.reasoning import Reasoning
from app.compaction.invariants.runs import ResultRuns

INVARIANTS: Final[tuple[CutInvariant, ...]] = (
    Pairs(),
    ResultRuns(),
    Reasoning(),
    PendingCall(),
    LastMessage(),
)


def allowed_cuts(history: History, invariants: Sequence[CutInvariant] = INVARIANTS) -> tuple[int, ...]:
    """The cuts that every invariant allows, ascending. Cut 0, which removes nothing, is always among them."""
    # How many more invariants forbid this cut than the one before: linear whatever overlaps.
    steps = [0] * (len(history) + 2)
    for invariant in invariants:
        for cuts in invariant.forbidden(history):
            steps[cuts.start] += 1
            steps[cuts.stop] -= 1
    return (0, *(cut for cut, count in enumerate(accumulate(steps[:-1])) if cut > 0 and count == 0))


__all__ = ["INVARIANTS", "CutInvariant", "allowed_cuts"]
