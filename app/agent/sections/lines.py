"""Untrusted text as one line of the durable block."""

from __future__ import annotations

from app.compaction.fence import neutralise

# Of a text that is far too long only so many times the room is looked at; blanks may stand at its beginning.
_LOOKED_AT = 8


def one_line(text: str, most: int) -> str:
    """``text`` on a single line of at most ``most`` characters, its fences neutralised (rules D2, G1).

    On one line it can neither open a section of its own nor continue somebody else's.
    """
    start = text[: most * _LOOKED_AT]
    line = neutralise(" ".join(start.split()))
    return line if len(line) <= most and start == text else f"{line[: most - 1]}…"
