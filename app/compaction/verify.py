"""The last look before a commit (rule C7)."""

from __future__ import annotations

from collections.abc import Sequence

from langchain_core.messages import BaseMessage

from app.compaction.partition import Partition


def verify(messages: Sequence[BaseMessage], partition: Partition) -> None:
    """Checks a partition against the history it was made from. Raises CompactionInvariantError (rule C7)."""
    raise NotImplementedError
