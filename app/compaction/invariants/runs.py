"""A run of tool results is not cut."""

from __future__ import annotations

from collections.abc import Iterator

from app.compaction.history import History


class ResultRuns:
    """Results that stand side by side stay on one side. With ``Pairs`` this holds all owners of a mixed run
    on the side of the run (rule C3)."""

    def forbidden(self, history: History) -> Iterator[range]:
        for index in history.owners:
            if index - 1 in history.owners:
                yield range(index, index + 1)
