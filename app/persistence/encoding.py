"""Messages as the archive holds them: exactly as a checkpoint would, and as JSON."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import orjson
from langchain_core.messages import (
    AIMessage,
    AIMessageChunk,
    BaseMessage,
    ChatMessage,
    FunctionMessage,
    HumanMessage,
    SystemMessage,
    ToolMessage,
)
from langgraph.checkpoint.serde.jsonplus import JsonPlusSerializer

from app.serialization import dumps

_SERIALIZER = JsonPlusSerializer()
_ENCODING = "msgpack"
_CLASSES: dict[str, type[BaseMessage]] = {
    cls.model_fields["type"].default: cls
    for cls in (
        AIMessage,
        AIMessageChunk,
        ChatMessage,
        FunctionMessage,
        HumanMessage,
        SystemMessage,
        ToolMessage,
    )
}


@dataclass(frozen=True, slots=True)
class Encoded:
    """A message as the archive keeps it. ``text`` is its JSON, ``digest`` the SHA-256 of that, ``original`` what a
    checkpoint would hold, None for a message that no checkpoint can hold."""

    text: str = field(repr=False)
    digest: str
    original: bytes | None = field(repr=False)


def encode(message: BaseMessage) -> Encoded:
    """The forms in which a message is archived. All are those of the message as it comes out of a checkpoint, which
    may differ from the one at hand: a checkpoint has no lone surrogates, for example."""
    try:
        _, original = _SERIALIZER.dumps_typed(message)
    except TypeError:
        # An integer beyond 64 bits, say. The run's checkpoint will fail as well; the archive is not what fails it.
        return _encoded(dumps(message), None)
    try:
        text = orjson.dumps(message.model_dump())
    except TypeError:
        text = dumps(decode(original))
    return _encoded(text, original)


def decode(original: bytes) -> BaseMessage:
    """The message that was encoded, as it comes out of a checkpoint."""
    message: BaseMessage = _SERIALIZER.loads_typed((_ENCODING, original))
    return message


def digest_of(message: BaseMessage) -> str:
    """Identifies a message's content: equal for what a checkpoint would not tell apart."""
    return encode(message).digest


def _encoded(text: bytes, original: bytes | None) -> Encoded:
    return Encoded(text.decode(), hashlib.sha256(text).hexdigest(), original)


def from_json(text: str) -> BaseMessage:
    """A message of which the archive has nothing but its JSON."""
    fields = orjson.loads(text)
    return _CLASSES[fields["type"]].model_validate(fields)


def dump_all(messages: Sequence[BaseMessage]) -> bytes | None:
    """Messages written down as quickly as can be, None when no checkpoint can hold one of them."""
    try:
        return _SERIALIZER.dumps_typed([_bare(message) for message in messages])[1]
    except TypeError:
        return None


def load_all(data: bytes) -> list[tuple[str, Encoded]]:
    """Id and forms of the messages that were dumped: what ``encode`` made of them at hand."""
    return [_forms(*item) for item in _SERIALIZER.loads_typed((_ENCODING, data))]


def _bare(message: BaseMessage) -> tuple[Any, ...]:
    """Its type and its fields where that says all: a checkpoint's form takes more than twice as long. A class of
    somebody else may not be there any more when it is read, so its forms are made now."""
    if type(message) is _CLASSES.get(message.type):
        return message.type, message.__dict__, message.__pydantic_extra__
    made = encode(message)
    return None, message.id, (made.text, made.digest, made.original)


def _forms(kind: str | None, content: Any, rest: Any) -> tuple[str, Encoded]:
    if kind is None:
        return content, Encoded(*rest)
    message = _CLASSES[kind].model_construct(**content)
    if rest and message.__pydantic_extra__ is not None:
        message.__pydantic_extra__.update(rest)
    return content["id"], encode(message)
