"""What a cut invariant is."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Protocol

from app.compaction.history import History


class CutInvariant(Protocol):
    """A reason why a history must not be cut at some places.

    A cut at ``i`` parts ``messages[:i]`` from ``messages[i:]``; cuts run from 0 (nothing removed) to the
    length."""

    def forbidden(self, history: History) -> Iterator[range]:
        """Ranges of cuts that are not allowed. They may overlap and come in any order."""
        ...
