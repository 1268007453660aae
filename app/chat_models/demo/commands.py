"""What a person can tell the demo model to do, one command to a line of the message."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

MAX_SLOW_TOKENS = 2000

_COMMAND = re.compile(r"^/(tool|then|slow|error|think)(?!\S)[ \t]*(.*)$", re.MULTILINE)
_TOOL_NAME = re.compile(r"[^\s{]+[ \t]*")
_DECODER = json.JSONDecoder()


@dataclass(frozen=True, slots=True)
class ToolRequest:
    """One ``/tool NAME {json}``. ``problem`` says why it cannot be called, None when it can."""

    name: str
    args: dict[str, Any] = field(default_factory=dict)
    problem: str | None = None


@dataclass(frozen=True, slots=True)
class Commands:
    """The commands of one message; None: not given.

    ``rounds`` are calls made together, one round after the other; ``slow`` is how many tokens to stream
    slowly; ``error`` and ``thought`` are texts.
    """

    rounds: tuple[tuple[ToolRequest, ...], ...] = ()
    slow: int | None = None
    error: str | None = None
    thought: str | None = None


def parse_commands(text: str) -> Commands:
    """Read the commands in ``text``. Lines that are none are ordinary words."""
    rounds: list[list[ToolRequest]] = [[]]
    values: dict[str, str] = {}
    for word, rest, request in _commands(text):
        match word:
            case "tool":
                rounds[-1].append(request)
            case "then":
                rounds.append([])
            case _:
                values[word] = rest
    return Commands(
        rounds=tuple(tuple(calls) for calls in rounds if calls),
        slow=_count(values.get("slow")),
        error=values.get("error"),
        thought=values.get("think"),
    )


def _commands(text: str) -> Iterator[tuple[str, str, ToolRequest]]:
    position = 0
    while found := _COMMAND.search(text, position):
        word, rest, position = found[1], found[2].strip(), found.end()
        request = ToolRequest("")
        if word == "tool":
            request, position = _tool_request(text, found.start(2), position)
        yield word, rest, request


def _tool_request(text: str, start: int, line_end: int) -> tuple[ToolRequest, int]:
    """The request that starts at ``start`` and where it ends; its JSON may go on over several lines."""
    name = _TOOL_NAME.match(text, start)
    if name is None:
        return ToolRequest("", problem="/tool needs the name of a tool"), line_end
    if not text[name.end() : line_end].strip():
        return ToolRequest(name[0].strip()), line_end
    try:
        args, end = _DECODER.raw_decode(text, name.end())
    except ValueError as error:
        return _refused(name, f"its arguments are not valid JSON ({error})"), line_end
    if not isinstance(args, dict):
        return _refused(name, "its arguments must be a JSON object"), end
    return ToolRequest(name[0].strip(), args), end


def _refused(name: re.Match[str], why: str) -> ToolRequest:
    return ToolRequest(name[0].strip(), problem=why)


def _count(text: str | None) -> int | None:
    if text is None:
        return None
    return min(int(text), MAX_SLOW_TOKENS) if text.isdecimal() else 100
