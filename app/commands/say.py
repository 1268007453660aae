"""What a command tells whoever started it."""

from __future__ import annotations

import sys


def say(text: str) -> None:
    """A line on stdout, at once; nothing when nobody reads it any more."""
    if sys.stdout is None:
        return
    try:
        sys.stdout.write(text + "\n")
        sys.stdout.flush()
    except OSError:
        # Who reads it is gone (``| head``); that is no reason to stop, nor for the interpreter to complain at the end.
        sys.stdout = None
