"""Paths into a thread, as searches use them: ``values.messages[-1].content``."""

from __future__ import annotations

import re
from typing import Any

_PATH = re.compile(r"[^.\[\]]+(\.[^.\[\]]+|\[-?\d{1,9}\])*")
_STEP = re.compile(r"\[(-?\d+)\]|([^.\[\]]+)")


def check_extract_path(path: str) -> str:
    """Raises ValueError for what is no path."""
    if not _PATH.fullmatch(path):
        raise ValueError("must be a path like values.messages[-1].content")
    return path


def extract(value: Any, path: str) -> Any:
    """What stands at ``path`` in a JSON value, None where nothing does."""
    for index, name in _STEP.findall(path):
        try:
            value = value[int(index)] if index else value[name]
        except (LookupError, TypeError):
            return None
    return value
