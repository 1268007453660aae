"""Sentences about wrong input: which field, what is wrong with it, which value it had."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from app.errors import InvalidInput
from app.serialization import show

_MAX_SHOWN = 3


def invalid(where: str, problem: str, value: Any) -> InvalidInput:
    """The error for a value that is not allowed, to be raised by the caller."""
    return InvalidInput(f"{where}: {problem}, got {show(value)}")


def validation_detail(errors: Sequence[Mapping[str, Any]], where: str = "") -> str:
    """One sentence about pydantic's errors, the first few of them; ``where`` is the path of what was
    validated.
    """
    shown = "; ".join(_sentence(error, where) for error in errors[:_MAX_SHOWN])
    return shown if len(errors) <= _MAX_SHOWN else f"{shown}; and {len(errors) - _MAX_SHOWN} more"


def path_text(location: Sequence[str | int], where: str = "") -> str:
    """``("body", "messages", 3, "id")`` as ``body.messages[3].id``."""
    for part in location:
        where += f"[{part}]" if isinstance(part, int) else f".{part}" if where else part
    return where or "request"


def _sentence(error: Mapping[str, Any], where: str) -> str:
    field = path_text(error.get("loc", ()), where)
    match error.get("type"):
        case "missing":
            return f"{field}: this field is required"
        case "extra_forbidden":
            return f"{field}: there is no such field"
        case _:
            problem = str(error.get("msg", "is not valid")).removeprefix("Value error, ")
            return f"{field}: {problem}, got {show(error.get('input'))}"
