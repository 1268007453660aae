"""Reasoning stays with the calls that it led to."""

from __future__ import annotations

from collections.abc import Iterator

from app.compaction.history import History


class Reasoning:
    """A model's message of reasoning alone stays with the model's next message: providers that hand out
    reasoning as an item of its own refuse calls that come back without it (rule C3). Inside one message
    nothing can be parted."""

    def forbidden(self, history: History) -> Iterator[range]:
        for index in range(1, len(history)):
            if history.leads_on(index - 1):
                yield range(index, index + 1)
