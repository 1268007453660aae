"""Something is always kept."""

from __future__ import annotations

from collections.abc import Iterator

from app.compaction.history import History


class LastMessage:
    """At least the last message is kept (rule C2)."""

    def forbidden(self, history: History) -> Iterator[range]:
        yield range(len(history), len(history) + 1)
