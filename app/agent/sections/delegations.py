"""The section of the delegations whose results no longer stand in the messages."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from app.agent.channels.delegations import (
    MAX_BRIEF_CHARACTERS,
    MAX_DESCRIPTION_CHARACTERS,
    MAX_TYPE_CHARACTERS,
    Delegation,
)
from app.agent.sections.lines import one_line
from app.compaction.roles import is_tool_result

DELEGATIONS_HEADING = "## Delegations (work that subagents were given earlier, oldest first)"
MAX_CHARACTERS = 8000

# What an entry shows however many there are: 50 of these and their brackets fit.
_LEAST_DESCRIPTION = 70
_LEAST_TYPE = 24
_ARROW = " -> "
_STATUS = {
    "completed": "completed",
    "failed": "failed",
    "cancelled": "cancelled before it ended",
    "timed_out": "stopped at its time limit",
}


def delegations_section(state: Mapping[str, Any]) -> str | None:
    """A line for each delegation of the channel (rule G3), at most ``MAX_CHARACTERS`` in all: the older, the shorter.

    One whose result still stands in the messages is not shown a second time.
    """
    ledger = state.get("delegations")
    if not ledger:
        return None
    visible = _visible_results(state.get("messages") or ())
    entries = [entry for entry in ledger if entry["id"] not in visible]
    if not entries:
        return None
    return "\n".join([DELEGATIONS_HEADING, "", *_lines(entries)])


def _visible_results(messages: Sequence[Any]) -> set[str]:
    return {message.tool_call_id for message in messages if is_tool_result(message)}


def _lines(entries: Sequence[Delegation]) -> list[str]:
    """Every entry gets a short line. Of what is left, each one from the newest on takes what it needs, at most half."""
    lines = [_line(entry, _LEAST_TYPE, _LEAST_DESCRIPTION) for entry in entries]
    room = MAX_CHARACTERS - len(DELEGATIONS_HEADING) - 1 - sum(len(line) + 1 for line in lines)
    for index in reversed(range(len(entries))):
        longer = _fitting(entries[index], len(lines[index]) + max(0, room) // 2)
        room -= len(longer) - len(lines[index])
        lines[index] = longer
    return lines


def _fitting(entry: Delegation, most: int) -> str:
    """The line with as much of its brief as ``most`` characters allow, else with as much of its description."""
    short = _line(entry, _LEAST_TYPE, _LEAST_DESCRIPTION)
    bare = _line(entry, MAX_TYPE_CHARACTERS, MAX_DESCRIPTION_CHARACTERS)
    if len(bare) > most:
        return _line(entry, _LEAST_TYPE, _LEAST_DESCRIPTION + most - len(short))
    room = min(MAX_BRIEF_CHARACTERS, most - len(bare) - len(_ARROW))
    return _line(entry, MAX_TYPE_CHARACTERS, MAX_DESCRIPTION_CHARACTERS, max(0, room))


def _line(entry: Delegation, kind: int, description: int, brief: int = 0) -> str:
    """At most so many characters of each part. An entry that has not ended was cut off: nothing is at work now."""
    status = _STATUS.get(entry["status"], _STATUS["cancelled"])
    told = one_line(entry.get("brief", ""), brief) if brief else ""
    parts = [
        f"- [{status}] {one_line(entry.get('subagent_type', ''), kind)}: ",
        one_line(entry.get("description", ""), description),
        f"{_ARROW}{told}" if told else "",
        f" (message {entry['message_id']})" if "message_id" in entry else "",
    ]
    return "".join(parts)
