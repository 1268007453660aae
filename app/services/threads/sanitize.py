"""What clients may not forge (rule H3): the marks by which Threadkeep knows its own messages and channels."""

from __future__ import annotations

import uuid
from collections.abc import Container, Mapping, Sequence
from typing import Any

from langchain_core.messages import BaseMessage, RemoveMessage

from app.compaction.roles import MEMORY_SUFFIX, SUMMARY_FLAG, SUMMARY_NAME, SUMMARY_SUFFIX, USER_SUFFIX
from app.errors import InvalidInput
from app.services.threads.messages import is_kind, read_messages

FLAGS = frozenset(
    {
        "hide_from_ui",
        "dynamic_context_reminder",
        "reminder_date",
        "durable_context_data",
        "skill_context_entry",
        "delegation_entry",
        SUMMARY_FLAG,
    }
)
SUFFIXES = (USER_SUFFIX, MEMORY_SUFFIX, SUMMARY_SUFFIX)
CONTROL_CHANNELS = frozenset({"summary_text", "delegations", "skill_context", "compaction"})

AUTH_PREFIX = "langgraph_auth_"

_NAMESPACE = uuid.UUID("5a4f2c59-5c43-4f9b-9d0b-0f3f1d9a1c11")


def read_values(values: Mapping[str, Any], known_ids: Container[str], where: str) -> dict[str, Any]:
    """The channel values that a client may write: messages read and cleaned, flags taken off everything else.

    ``known_ids`` are the message ids the thread has already; ``where`` is the path of ``values``. Raises
    InvalidInput for a control channel, for messages that are none and for numbers that no checkpoint can keep.
    """
    refuse_control_channels(values, where)
    refuse_wide_integers(values, where)
    return {
        name: clean_messages(read_messages(value, f"{where}.{name}"), known_ids)
        if name == "messages"
        else strip_flags(value)
        for name, value in values.items()
    }


def refuse_control_channels(values: Mapping[str, Any], where: str) -> None:
    """Raises InvalidInput when ``values`` names a channel that only Threadkeep writes."""
    for name in values:
        if name in CONTROL_CHANNELS:
            raise InvalidInput(f"{where}.{name}: only the service itself writes this channel")


def refuse_wide_integers(value: Any, where: str) -> None:
    """Raises InvalidInput, with the path, for an integer beyond 64 bits: a checkpoint cannot keep it."""
    match value:
        case int() if not -(2**63) <= value < 2**64:
            raise InvalidInput(f"{where}: integers must fit into 64 bits")
        case dict():
            for name, item in value.items():
                refuse_wide_integers(item, f"{where}.{name}")
        case list():
            for index, item in enumerate(value):
                refuse_wide_integers(item, f"{where}[{index}]")


def clean_messages(messages: Sequence[BaseMessage], known_ids: Container[str]) -> list[BaseMessage]:
    """The messages without flags, without the name of a summary, and without our id suffixes.

    A suffix stays where the thread already has that id, so that editing and sending back what was read works. What is
    remembered of the person cannot be rewritten in the thread, nor can its summary: sent back, they are left out.
    """
    taken = {message.id for message in messages}
    return [_clean(message, known_ids, taken) for message in messages if not _is_ours(message, known_ids)]


def _is_ours(message: BaseMessage, known_ids: Container[str]) -> bool:
    if isinstance(message, RemoveMessage) or not message.id:
        return False
    return message.id.endswith((MEMORY_SUFFIX, SUMMARY_SUFFIX)) and message.id in known_ids


def strip_flags(value: Any) -> Any:
    """JSON data without our marks, at any depth. For what is not messages but may hold some (resume values, items of
    the store): flags go everywhere, the name of a summary and the endings of our ids from what looks like a message."""
    match value:
        case {"content": _, "type": str() as kind} | {"content": _, "role": str() as kind} if is_kind(kind):
            return {name: strip_flags(item) for name, item in _unmarked(value).items()}
        case dict():
            return {name: strip_flags(item) for name, item in value.items() if name not in FLAGS}
        case list():
            return [strip_flags(item) for item in value]
        case _:
            return value


def _unmarked(message: Mapping[str, Any]) -> dict[str, Any]:
    plain = {name: item for name, item in message.items() if name not in FLAGS}
    if plain.get("name") == SUMMARY_NAME:
        del plain["name"]
    if isinstance(given := plain.get("id"), str) and given.endswith(SUFFIXES):
        plain["id"] = _plain_id(given, (), set())
    return plain


def refuse_reserved(values: Mapping[str, Any], where: str) -> None:
    """For ``config.configurable`` and ``context``: raises InvalidInput for names by which LangGraph itself and graphs
    tell where they are and who asks."""
    refuse_auth(values, where)
    for name in values:
        if name.startswith("__"):
            raise InvalidInput(f"{where}.{name}: names that start with __ are reserved")


def refuse_auth(values: Mapping[str, Any], where: str) -> None:
    """For metadata too: raises InvalidInput for names by which graphs tell who asks."""
    for name in values:
        if name.startswith(AUTH_PREFIX):
            raise InvalidInput(f"{where}.{name}: names that start with {AUTH_PREFIX} are reserved")


def _clean(message: BaseMessage, known_ids: Container[str], taken: set[str | None]) -> BaseMessage:
    if isinstance(message, RemoveMessage):
        return message
    changes: dict[str, Any] = {
        name: {key: item for key, item in value.items() if key not in FLAGS}
        for name in ("additional_kwargs", "response_metadata", "artifact")
        if isinstance(value := getattr(message, name, None), dict) and not FLAGS.isdisjoint(value)
    }
    if message.name == SUMMARY_NAME:
        changes["name"] = None
    if message.id and message.id not in known_ids and message.id.endswith(SUFFIXES):
        changes["id"] = _plain_id(message.id, known_ids, taken)
    return message.model_copy(update=changes) if changes else message


def _plain_id(message_id: str, known_ids: Container[str], taken: set[str | None]) -> str:
    plain = message_id
    while plain.endswith(SUFFIXES):
        plain = next(plain.removesuffix(suffix) for suffix in SUFFIXES if plain.endswith(suffix))
    if plain and plain not in known_ids and plain not in taken:
        taken.add(plain)
        return plain
    # Another message has the plain id and would be replaced. Always the same new id, so that a repeated
    # import repeats nothing.
    return str(uuid.uuid5(_NAMESPACE, message_id))
