"""A call that may still be answered is not cut off."""

from __future__ import annotations

from collections.abc import Iterator

from app.compaction.history import History


class PendingCall:
    """A pending call is kept: its result is still to come. A dead call further back holds nothing (rule
    C3)."""

    def forbidden(self, history: History) -> Iterator[range]:
        if history.pending is not None:
            yield range(history.pending + 1, len(history) + 1)
