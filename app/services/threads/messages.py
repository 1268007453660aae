"""Messages as clients send them, in every form that LangChain's clients use, checked and made message
objects.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, Literal

from langchain_core.messages import (
    AIMessage,
    BaseMessage,
    FunctionMessage,
    HumanMessage,
    RemoveMessage,
    SystemMessage,
    ToolMessage,
)
from langgraph.graph.message import REMOVE_ALL_MESSAGES
from pydantic import (
    BaseModel,
    ConfigDict,
    Field,
    StrictStr,
    ValidationError,
    field_validator,
    model_validator,
)

from app.errors import InvalidInput
from app.services.ids import new_message_id
from app.services.problems import invalid, validation_detail

MAX_ID_LENGTH = 256

_KINDS: Mapping[str, type[BaseMessage]] = {
    "human": HumanMessage,
    "user": HumanMessage,
    "ai": AIMessage,
    "assistant": AIMessage,
    "system": SystemMessage,
    "developer": SystemMessage,
    "tool": ToolMessage,
    "function": FunctionMessage,
    "remove": RemoveMessage,
}
# A client that kept what it was streamed sends chunks back under their class names.
_CLASS_KINDS = {
    f"{cls.__name__}{suffix}": kind
    for kind, cls in _KINDS.items()
    if kind not in ("user", "assistant", "developer")
    for suffix in ("", "Chunk")
}
_OVERWRITE = "__overwrite__"


class _ToolCall(BaseModel):
    """A tool call, in LangChain's form or in OpenAI's (``{"function": {"name", "arguments"}}``)."""

    model_config = ConfigDict(extra="ignore")

    name: StrictStr
    args: dict[str, Any] = Field(default_factory=dict)
    id: StrictStr | None = None

    @model_validator(mode="before")
    @classmethod
    def _from_openai(cls, call: Any) -> Any:
        if not isinstance(call, dict):
            raise ValueError("must be an object")
        function = call.get("function")
        if not isinstance(function, dict):
            return call
        arguments = function.get("arguments") or "{}"
        try:
            args = json.loads(arguments) if isinstance(arguments, str) else arguments
        except ValueError:
            raise ValueError("function.arguments must be JSON") from None
        return {"name": function.get("name"), "args": args, "id": call.get("id")}


class _Fields(BaseModel):
    """The fields of a message. Unknown ones become ``additional_kwargs``, as in LangChain."""

    model_config = ConfigDict(extra="allow")

    content: Any = None
    id: StrictStr | None = Field(default=None, max_length=MAX_ID_LENGTH)
    name: StrictStr | None = None
    additional_kwargs: dict[str, Any] | None = None
    response_metadata: dict[str, Any] | None = None
    tool_calls: list[_ToolCall] | None = None
    invalid_tool_calls: list[dict[str, Any]] | None = None
    usage_metadata: dict[str, Any] | None = None
    tool_call_id: StrictStr | None = None
    status: Literal["success", "error"] | None = None
    artifact: Any = None
    # What only chunks and old messages have; it says nothing that the other fields do not.
    example: Any = Field(default=None, exclude=True)
    tool_call_chunks: Any = Field(default=None, exclude=True)
    chunk_position: Any = Field(default=None, exclude=True)

    @field_validator("content")
    @classmethod
    def _text_or_blocks(cls, content: Any) -> Any:
        if content is None:
            return ""
        blocks = isinstance(content, list) and all(isinstance(block, (str, dict)) for block in content)
        if not blocks and not isinstance(content, str):
            raise ValueError("must be a string or a list of strings and objects")
        return content


def is_kind(word: str) -> bool:
    """Whether a message may say this of its role or type."""
    return word in _KINDS or word in _CLASS_KINDS


def read_messages(raw: Any, where: str) -> list[BaseMessage]:
    """Message objects from what a client sent: a list, or one message.

    A message is a text, a pair ``[role, content]``, a flat object (``type`` or ``role``, ``content``, ...),
    an object ``{"type", "data": {...}}``, or LangChain's constructor form. Missing ids are made. ``where`` is
    the path of ``raw``. Raises InvalidInput naming the message and the field.
    """
    if isinstance(raw, dict) and set(raw) == {_OVERWRITE}:
        replaced = read_messages(raw[_OVERWRITE], f"{where}.{_OVERWRITE}")
        return [RemoveMessage(id=REMOVE_ALL_MESSAGES), *replaced]
    if isinstance(raw, list):
        return [_read(item, f"{where}[{index}]") for index, item in enumerate(raw)]
    return [_read(raw, where)]


def _read(raw: Any, where: str) -> BaseMessage:
    match raw:
        case str():
            return HumanMessage(content=raw, id=new_message_id())
        case [str() as role, content]:
            return _build(role, {"content": content}, where)
        case {"lc": 1, "type": "constructor", "id": [*_, str() as class_name], "kwargs": dict() as fields}:
            return _build(class_name, _without(fields, "type"), where)
        case {"type": str() as kind, "data": dict() as fields}:
            return _build(kind, _without(fields, "type"), f"{where}.data")
        case dict():
            return _build(_kind_of(raw, where), _without(raw, "type", "role"), where)
        case _:
            raise invalid(where, "must be a message", raw)


def _kind_of(raw: Mapping[str, Any], where: str) -> Any:
    kind = raw.get("type", raw.get("role"))
    if kind is None:
        raise invalid(f"{where}.type", "a message needs a type or a role", raw)
    return kind


def _build(kind: Any, fields: Mapping[str, Any], where: str) -> BaseMessage:
    cls = _KINDS.get(_CLASS_KINDS.get(kind, kind)) if isinstance(kind, str) else None
    if cls is None:
        raise invalid(f"{where}.type", f"must be one of {', '.join(_KINDS)}", kind)
    for name in _required(cls, fields):
        if not fields.get(name) and (name != "content" or name not in fields):
            raise InvalidInput(f"{where}.{name}: this field is required")
    try:
        known = _Fields.model_validate(fields)
        return cls.model_validate(_arguments(cls, known))
    except ValidationError as error:
        raise InvalidInput(validation_detail(error.errors(), where)) from None
    except (ValueError, TypeError, KeyError) as error:
        # LangChain's own validators are free to raise anything of these.
        raise invalid(where, f"is not a valid message ({error})", fields) from None


def _arguments(cls: type[BaseMessage], known: _Fields) -> dict[str, Any]:
    given = {name: getattr(known, name) for name in _Fields.model_fields if name in cls.model_fields}
    arguments = {name: value for name, value in given.items() if value is not None}
    if known.tool_calls and "tool_calls" in arguments:
        arguments["tool_calls"] = [call.model_dump() for call in known.tool_calls]
    if known.model_extra:
        arguments["additional_kwargs"] = {**known.model_extra, **(known.additional_kwargs or {})}
    arguments["content"] = known.content or ""
    arguments["id"] = known.id or new_message_id()
    return arguments


def _required(cls: type[BaseMessage], fields: Mapping[str, Any]) -> tuple[str, ...]:
    if cls is RemoveMessage:
        return ("id",)
    if cls is ToolMessage:
        return ("content", "tool_call_id")
    return () if fields.get("tool_calls") else ("content",)


def _without(fields: Mapping[str, Any], *names: str) -> dict[str, Any]:
    return {name: value for name, value in fields.items() if name not in names}
