"""Untrusted text as one line of the durable block."""

from __future__ import annotations

from app.compaction.fence import neutralise


def one_line(text: str, most: int) -> str:
    """``text`` on a single line of at most ``most`` characters, its fences neutralised (rules D2, G1).

    On one line it can neither open a section of its own nor continue somebody else's.
    """
    line = neutralise(" ".join(text.split()))
    return line if len(line) <= most else f"{line[: most - 1]}…"
