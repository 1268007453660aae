"""What the provider stand-in can answer with, and how each answer looks on the wire (chat completions)."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from tests.support.overflow_shapes import ErrorShape

_CHUNKS = 50


@dataclass(frozen=True, slots=True)
class Request:
    """One request as it arrived. ``body`` is the decoded JSON, empty for GET."""

    method: str
    path: str
    headers: Mapping[str, str]
    body: Mapping[str, Any]

    @property
    def stream(self) -> bool:
        return bool(self.body.get("stream"))

    @property
    def messages(self) -> Sequence[Mapping[str, Any]]:
        return self.body.get("messages", [])

    @property
    def text(self) -> str:
        """Everything the model would read as text, message by message."""
        return "\n".join(content_text(message.get("content")) for message in self.messages)

    @property
    def tokens(self) -> int:
        """Size as this provider counts it: 4 characters of the messages and tools are one token."""
        return len(json.dumps([self.messages, self.body.get("tools")], ensure_ascii=False)) // 4


def content_text(content: Any) -> str:
    if isinstance(content, str):
        return content
    return "".join(block.get("text", "") for block in content or () if isinstance(block, dict))


@dataclass(frozen=True, slots=True)
class ToolCall:
    name: str
    args: Mapping[str, Any]
    id: str


@dataclass(frozen=True, slots=True)
class Reply:
    """A finished answer. ``usage`` is (prompt, completion) tokens, by default counted; None sends none.

    ``pause_s`` is the time between two chunks of a stream.
    """

    text: str | None = "ok"
    tool_calls: Sequence[ToolCall] = ()
    refusal: str | None = None
    finish_reason: str | None = "stop"
    usage: tuple[int, int] | None = (-1, -1)
    pause_s: float = 0.0


@dataclass(frozen=True, slots=True)
class Echo:
    """Says back the last message it was sent."""


@dataclass(frozen=True, slots=True)
class Fail:
    """An HTTP error. ``body`` is JSON, or text."""

    status: int
    body: Any = None
    headers: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class StreamError:
    """HTTP 200, and the error in the body: the only event of a stream, or the JSON of a plain answer."""

    body: Any


@dataclass(frozen=True, slots=True)
class Drop:
    """Closes the connection without a byte."""


@dataclass(frozen=True, slots=True)
class Hang:
    """Answers nothing (or only the beginning of a stream) until released; then ``then``, or hangs up."""

    after: str = ""
    then: Reply | None = None


@dataclass(frozen=True, slots=True)
class HalfStream:
    """Half an answer, then the connection breaks; ``clean`` ends it properly, but without a finish reason."""

    text: str = "This is the first half"
    clean: bool = False


@dataclass(frozen=True, slots=True)
class InvalidJson:
    """HTTP 200 with a body, or a stream event, that is not JSON."""


Answer = Reply | Echo | Fail | StreamError | Drop | Hang | HalfStream | InvalidJson
Behaviour = Answer | Callable[[Request], Answer]


def answer_of(shape: ErrorShape) -> Fail | StreamError:
    """The published error as an answer."""
    return StreamError(shape.body) if shape.in_stream else Fail(shape.status, shape.body)


def resolve(behaviour: Behaviour, request: Request) -> Answer:
    answer = behaviour(request) if callable(behaviour) else behaviour
    return Reply(content_text(request.messages[-1].get("content"))) if isinstance(answer, Echo) else answer


def completion(reply: Reply, request: Request) -> bytes:
    """The JSON of an answer that is not streamed."""
    message = {"role": "assistant", "content": reply.text, "refusal": reply.refusal}
    if reply.tool_calls:
        message["tool_calls"] = [_tool_call(call) for call in reply.tool_calls]
    choice = {"index": 0, "message": message, "logprobs": None, "finish_reason": _finish(reply)}
    body = {**_head(request, "chat.completion"), "choices": [choice]}
    if reply.usage is not None:
        body["usage"] = _usage(reply, request)
    return json.dumps(body).encode()


def events(reply: Reply, request: Request) -> Iterator[bytes]:
    """The server-sent events of a streamed answer, the closing ``[DONE]`` included."""
    yield delta(request, {"role": "assistant", "content": ""})
    yield from text_events(reply.text or "", request)
    if reply.refusal is not None:
        yield from text_events(reply.refusal, request, field_name="refusal")
    for index, call in enumerate(reply.tool_calls):
        yield from _tool_call_events(index, call, request)
    yield delta(request, {}, _finish(reply))
    if (request.body.get("stream_options") or {}).get("include_usage") and reply.usage is not None:
        tail = {**_head(request, "chat.completion.chunk"), "choices": [], "usage": _usage(reply, request)}
        yield event(json.dumps(tail))
    yield event("[DONE]")


def text_events(text: str, request: Request, field_name: str = "content") -> Iterator[bytes]:
    size = max(4, -(-len(text) // _CHUNKS))
    for start in range(0, len(text), size):
        yield delta(request, {field_name: text[start : start + size]})


def delta(request: Request, part: Mapping[str, Any], finish_reason: str | None = None) -> bytes:
    choice = {"index": 0, "delta": part, "logprobs": None, "finish_reason": finish_reason}
    return event(json.dumps({**_head(request, "chat.completion.chunk"), "choices": [choice]}))


def event(data: str) -> bytes:
    return f"data: {data}\n\n".encode()


def _tool_call_events(index: int, call: ToolCall, request: Request) -> Iterator[bytes]:
    arguments = json.dumps(call.args)
    half = len(arguments) // 2
    first = {"index": index, **_tool_call(call)}
    first["function"] = {"name": call.name, "arguments": arguments[:half]}
    yield delta(request, {"tool_calls": [first]})
    yield delta(request, {"tool_calls": [{"index": index, "function": {"arguments": arguments[half:]}}]})


def _tool_call(call: ToolCall) -> dict[str, Any]:
    function = {"name": call.name, "arguments": json.dumps(call.args)}
    return {"id": call.id, "type": "function", "function": function}


def _finish(reply: Reply) -> str | None:
    return "tool_calls" if reply.tool_calls and reply.finish_reason == "stop" else reply.finish_reason


def _usage(reply: Reply, request: Request) -> dict[str, int]:
    prompt, written = reply.usage or (0, 0)
    prompt = request.tokens if prompt < 0 else prompt
    written = 1 + len(reply.text or "") // 4 if written < 0 else written
    return {"prompt_tokens": prompt, "completion_tokens": written, "total_tokens": prompt + written}


def _head(request: Request, kind: str) -> dict[str, Any]:
    return {"id": "chatcmpl-1", "object": kind, "created": 1, "model": request.body.get("model", "")}
