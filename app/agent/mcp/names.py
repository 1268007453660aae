"""What the tools of MCP servers are called, so that no two tools of an agent have one name."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping
from itertools import count

# What all providers take.
_UNSAFE = re.compile(r"[^A-Za-z0-9_-]")
_LONGEST = 64


def tool_names(
    listed: Mapping[str, Collection[str]], reserved: Collection[str]
) -> dict[tuple[str, str], str]:
    """A name for each (server, tool): its own, or with the server's before it when an earlier server has it already.

    ``reserved`` are names of ours. A tool of somebody else never has one of them, whether or not the agent has our
    tool: its results would be taken for ours.
    """
    names: dict[tuple[str, str], str] = {}
    taken = set(reserved)
    for server, tools in listed.items():
        for tool in dict.fromkeys(tools):
            name = next(name for name in _candidates(server, tool) if name not in taken)
            taken.add(name)
            names[server, tool] = name
    return names


def _candidates(server: str, tool: str) -> Iterator[str]:
    yield _safe(tool) or "tool"
    prefixed = _safe(f"{server}_{tool}")
    yield prefixed
    for number in count(2):
        suffix = f"_{number}"
        yield f"{prefixed[: _LONGEST - len(suffix)]}{suffix}"


def _safe(name: str) -> str:
    return _UNSAFE.sub("_", name)[:_LONGEST]
