"""No tool call is parted from its result."""

from __future__ import annotations

from collections.abc import Iterator

from app.compaction.history import History


class Pairs:
    """A call and all its results stand on one side, whatever stands between them. That makes parallel calls,
    which share one message, atomic (rule C3)."""

    def forbidden(self, history: History) -> Iterator[range]:
        for owner, results in history.results.items():
            yield range(owner + 1, results[-1] + 1)
