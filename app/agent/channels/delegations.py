"""The channel ``delegations``: what the agent gave to subagents, and what came of it (rule G3)."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Any, Literal, NotRequired, TypedDict

MAX_DELEGATIONS = 50
MAX_DESCRIPTION_CHARACTERS = 500
MAX_TYPE_CHARACTERS = 64
MAX_BRIEF_CHARACTERS = 2000

DelegationStatus = Literal["in_progress", "completed", "failed", "cancelled", "timed_out"]
EndStatus = Literal["completed", "failed", "timed_out"]


class Delegation(TypedDict):
    """One delegation. ``id`` is that of the tool call, times are ISO 8601, UTC.

    ``brief`` is the beginning of the result, ``sha256`` that of all of it, ``message_id`` the tool message that holds
    it: in the state, or after a compaction in the archive.
    """

    id: str
    status: DelegationStatus
    description: NotRequired[str]
    subagent_type: NotRequired[str]
    started_at: NotRequired[str]
    ended_at: NotRequired[str]
    brief: NotRequired[str]
    sha256: NotRequired[str]
    message_id: NotRequired[str]


def merge_delegations(
    known: Sequence[Delegation] | None, new: Sequence[Delegation] | None
) -> list[Delegation]:
    """``known`` with the entries of ``new`` laid over those of the same id: the newest ``MAX_DELEGATIONS``, in the
    order in which they were first seen. What has ended never goes back to being in progress."""
    by_id: dict[str, Delegation] = {}
    for entry in (*(known or ()), *(new or ())):
        before = by_id.get(entry["id"])
        if before is None:
            by_id[entry["id"]] = entry
        elif not (has_ended(before) and not has_ended(entry)):
            by_id[entry["id"]] = {**before, **entry}
    return list(by_id.values())[-MAX_DELEGATIONS:]


def has_ended(entry: Delegation) -> bool:
    return entry["status"] != "in_progress"


def dispatched(call: Mapping[str, Any]) -> Delegation:
    """The entry of a tool call that the model has just made, whatever its arguments are."""
    arguments = call["args"]
    return Delegation(
        id=call["id"],
        status="in_progress",
        description=_text(arguments.get("description"), MAX_DESCRIPTION_CHARACTERS),
        subagent_type=_text(arguments.get("subagent_type"), MAX_TYPE_CHARACTERS),
        started_at=_now(),
    )


def ended(call_id: str, status: EndStatus, result: str, message_id: str) -> Delegation:
    """What the ``task`` tool knows when it is done. ``result`` is all of it, ``message_id`` that of its message."""
    return Delegation(
        id=call_id,
        status=status,
        ended_at=_now(),
        brief=_text(result.strip(), MAX_BRIEF_CHARACTERS),
        sha256=hashlib.sha256(result.encode(errors="surrogatepass")).hexdigest(),
        message_id=message_id,
    )


def cut_off(entry: Delegation) -> Delegation:
    """An entry whose run ended before the subagent did."""
    return {**entry, "status": "cancelled", "ended_at": _now()}


def refused(call_id: str) -> Delegation:
    """A call that never reached the ``task`` tool, since its arguments were wrong."""
    return Delegation(id=call_id, status="failed", ended_at=_now())


def _text(value: Any, most: int) -> str:
    text = value if isinstance(value, str) else ""
    return text if len(text) <= most else f"{text[: most - 1]}…"


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="milliseconds")
