"""The last look before a commit (rule C7).

It shares no code with the partition beyond reading what calls what: a mistake there must not be repeated
here."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from langchain_core.messages import BaseMessage

from app.compaction.history import History
from app.compaction.partition import Partition
from app.compaction.protected import newest_user_message
from app.compaction.roles import is_system, is_tool_result, tool_call_ids
from app.errors import CompactionInvariantError

Pair = tuple[str | None, str, str | None]


def verify(
    messages: Sequence[BaseMessage], partition: Partition, pinned: frozenset[str] = frozenset()
) -> None:
    """Checks a partition against the history it was made from. ``pinned`` are ids of messages that must stay.

    Raises CompactionInvariantError when an id is missing or not unique, when removed + kept + dropped is not
    the input in its order, when a call would be parted from its result or joined with another, when a system
    message, the newest real user message or a pin within its budget would be removed, or when nothing is
    removed (rule C7)."""
    _check_ids(messages)
    _check_sum(messages, partition)
    _check_pairs(messages, partition)
    _check_protected(messages, partition)
    _check_pins(partition, pinned)


def _check_ids(messages: Sequence[BaseMessage]) -> None:
    seen: set[str] = set()
    for message in messages:
        if not message.id:
            raise CompactionInvariantError(f"a {message.type} message has no id")
        if message.id in seen:
            raise CompactionInvariantError(f"the id {message.id!r} is used by two messages")
        seen.add(message.id)


def _check_sum(messages: Sequence[BaseMessage], partition: Partition) -> None:
    parts = (partition.removed, partition.kept, partition.dropped)
    if not partition.removed:
        raise CompactionInvariantError("nothing would be removed")
    if sum(map(len, parts)) != len(messages) or {m.id for p in parts for m in p} != {m.id for m in messages}:
        raise CompactionInvariantError("removed, kept and dropped messages together are not the history")
    position = {message.id: index for index, message in enumerate(messages)}
    for part in parts:
        order = [position[message.id] for message in part]
        if order != sorted(order):
            raise CompactionInvariantError("the order of the messages would change")


def _check_pairs(messages: Sequence[BaseMessage], partition: Partition) -> None:
    parted = _pairs(messages) ^ (_pairs(partition.removed) | _pairs(partition.kept))
    if parted:
        call, call_id, result = sorted(parted, key=str)[0]
        raise CompactionInvariantError(
            f"the call {call_id!r} of message {call!r} and its result {result!r} would be parted"
        )


def _check_protected(messages: Sequence[BaseMessage], partition: Partition) -> None:
    newest = newest_user_message(History.of(messages))
    said = None if newest is None else messages[newest]
    for message in partition.removed:
        if is_system(message) or message is said:
            raise CompactionInvariantError(f"the {message.type} message {message.id!r} must not be removed")


def _check_pins(partition: Partition, pinned: frozenset[str]) -> None:
    for message in (*partition.removed, *partition.dropped):
        if message.id in pinned - partition.waived_pins:
            raise CompactionInvariantError(f"the pinned message {message.id!r} must not be removed")


def _pairs(messages: Iterable[BaseMessage]) -> set[Pair]:
    """Every result with the nearest earlier call of its id: (calling message, call, result message)."""
    callers: dict[str, str | None] = {}
    pairs: set[Pair] = set()
    for message in messages:
        if is_tool_result(message):
            if message.tool_call_id in callers:
                pairs.add((callers[message.tool_call_id], message.tool_call_id, message.id))
        else:
            callers.update(dict.fromkeys(tool_call_ids(message), message.id))
    return pairs
