"""From the chunks of messages that a run keeps to the events of content blocks that thread streams (v2) speak in."""

from __future__ import annotations

import json
from collections.abc import Hashable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from langchain_core.messages import AIMessage, AIMessageChunk, HumanMessage, SystemMessage

Data = dict[str, Any]

_WHOLE = {"ai": AIMessage, "human": HumanMessage, "system": SystemMessage}
_CHUNK = "AIMessageChunk"
_FIELDS = (
    "content",
    "id",
    "name",
    "additional_kwargs",
    "response_metadata",
    "tool_calls",
    "invalid_tool_calls",
)
_CHUNK_FIELDS = ("content", "id", "additional_kwargs", "response_metadata", "tool_call_chunks")
# Kinds of blocks that come piece by piece, and which of their fields the pieces are of.
_GROWING = {
    "text": ("text", "text-delta", "text"),
    "reasoning": ("reasoning", "reasoning-delta", "reasoning"),
    "tool_call_chunk": ("args", "tool-call-delta", "args"),
    "server_tool_call_chunk": ("args", "tool-call-delta", "args"),
}
# What a block has whole comes with its end; its beginning need not hold it as well.
_HEAVY = frozenset({"args", "data", "output", "transcript", "value"})
_PLACEHOLDERS: Mapping[str, Data] = {
    "tool_call": {"args": {}},
    "server_tool_call": {"args": {}},
    "non_standard": {"value": {}},
}
_WHOLE_CALLS = {"tool_call_chunk": "tool_call", "server_tool_call_chunk": "server_tool_call"}


@dataclass(slots=True)
class _Open:
    """A message that is being streamed."""

    blocks: dict[Hashable, tuple[int, Data]] = field(default_factory=dict)
    usage: Data = field(default_factory=dict)
    metadata: Data = field(default_factory=dict)


@dataclass(slots=True)
class MessageBlocks:
    """The messages of one namespace. Results of tools are no part of it: thread streams show them as such."""

    _open: dict[str, _Open] = field(default_factory=dict)
    _done: set[str] = field(default_factory=set)

    def add(self, message: Mapping[str, Any]) -> list[Data]:
        """The events of a chunk, or of a whole message that was not streamed."""
        message_id = message.get("id") or ""
        if message["type"] == _CHUNK:
            events = self._chunk(message_id, message)
        elif message["type"] in _WHOLE and message_id not in self._done and message_id not in self._open:
            events = self._whole(message_id, message)
        else:
            return []
        # Clients tell messages apart that are streamed side by side by one or the other.
        return [{**event, "id": message_id, "run_id": message_id} for event in events]

    def close(self, error: str | None) -> list[Data]:
        """The ends of what is still open: cut off, when there is an ``error`` to say."""
        events: list[Data] = []
        for message_id in list(self._open):
            ends = [{"event": "error", "message": error}] if error else list(self._finish(message_id))
            self._open.pop(message_id, None)
            events += [{**end, "id": message_id, "run_id": message_id} for end in ends]
        return events

    def _chunk(self, message_id: str, chunk: Mapping[str, Any]) -> Iterator[Data]:
        if message_id in self._done:
            return
        message = self._open.get(message_id)
        if message is None:
            message = self._open[message_id] = _Open()
            yield {"event": "message-start", "role": "ai"}
        for key, block in _blocks_of_chunk(chunk):
            yield from _grow(message, key, block)
        message.metadata |= chunk.get("response_metadata") or {}
        _add_usage(message.usage, chunk.get("usage_metadata") or {})
        if chunk.get("chunk_position") == "last":
            yield from self._finish(message_id)

    def _finish(self, message_id: str) -> Iterator[Data]:
        message = self._open.pop(message_id)
        self._done.add(message_id)
        for index, block in message.blocks.values():
            yield {"event": "content-block-finish", "index": index, "content": _finished(block)}
        yield _message_finish(message.usage, message.metadata)

    def _whole(self, message_id: str, message: Mapping[str, Any]) -> Iterator[Data]:
        self._done.add(message_id)
        yield {"event": "message-start", "role": message["type"]}
        kind = _WHOLE[message["type"]]
        whole = kind(**{name: message[name] for name in _FIELDS if message.get(name) is not None})
        for index, block in enumerate(whole.content_blocks):
            yield {"event": "content-block-start", "index": index, "content": _empty(dict(block))}
            if delta := _delta(dict(block)):
                yield {"event": "content-block-delta", "index": index, "delta": delta}
            yield {"event": "content-block-finish", "index": index, "content": dict(block)}
        yield _message_finish(message.get("usage_metadata") or {}, message.get("response_metadata") or {})


def _blocks_of_chunk(chunk: Mapping[str, Any]) -> Iterator[tuple[Hashable, Data]]:
    """The pieces in a chunk, each with what tells which block it belongs to."""
    text = chunk["content"]
    if isinstance(text, str) and not chunk.get("tool_call_chunks") and not chunk.get("additional_kwargs"):
        if text:
            yield ("text", 0), {"type": "text", "text": text}
        return
    rebuilt = AIMessageChunk(**{name: chunk[name] for name in _CHUNK_FIELDS if chunk.get(name) is not None})
    for position, block in enumerate(rebuilt.content_blocks):
        index = block.get("index")
        yield (block["type"], position) if index is None else index, dict(block)


def _grow(message: _Open, key: Hashable, piece: Data) -> Iterator[Data]:
    known = message.blocks.get(key)
    if known is None:
        index = len(message.blocks)
        message.blocks[key] = (index, dict(piece))
        yield {"event": "content-block-start", "index": index, "content": _empty(piece)}
    else:
        index, block = known
        _merge(block, piece)
    if delta := _delta(piece):
        yield {"event": "content-block-delta", "index": index, "delta": delta}


def _merge(block: Data, piece: Data) -> None:
    grows = _GROWING.get(piece["type"], ("", "", ""))[0]
    for name, value in piece.items():
        if name == grows:
            block[name] = (block.get(name) or "") + (value or "")
        elif value is not None:
            block[name] = value


def _empty(block: Data) -> Data:
    """What a block begins as: its pieces follow, or all of it at its end."""
    kind = block["type"]
    if kind not in _GROWING:
        light = {name: value for name, value in block.items() if name not in _HEAVY}
        return light | _PLACEHOLDERS.get(kind, {})
    # A chunk of a call keeps the index that its provider gave it.
    dropped = {"annotations"} if kind in _WHOLE_CALLS else {"annotations", "index"}
    return {name: value for name, value in block.items() if name not in dropped} | {_GROWING[kind][0]: ""}


def _delta(piece: Data) -> Data | None:
    if piece["type"] not in _GROWING:
        return None
    name, kind, field_name = _GROWING[piece["type"]]
    return {"type": kind, field_name: piece[name]} if piece.get(name) else None


def _finished(block: Data) -> Data:
    kind = _WHOLE_CALLS.get(block["type"])
    if kind is None:
        return block
    dropped = {"args", "type", "index"} if kind == "tool_call" else {"args", "type"}
    kept = {name: value for name, value in block.items() if name not in dropped}
    try:
        arguments = json.loads(block.get("args") or "{}")
    except ValueError:
        error = "Failed to parse tool call arguments as JSON"
        return {**kept, "type": "invalid_tool_call", "args": block.get("args"), "error": error}
    return {**kept, "type": kind, "args": arguments}


def _message_finish(usage: Mapping[str, Any], metadata: Mapping[str, Any]) -> Data:
    end: Data = {"event": "message-finish"}
    if usage:
        end["usage"] = dict(usage)
    if metadata:
        end["metadata"] = dict(metadata)
    return end


def _add_usage(total: Data, more: Mapping[str, Any]) -> None:
    for name, value in more.items():
        if isinstance(value, int):
            total[name] = total.get(name, 0) + value
        elif isinstance(value, dict):
            _add_usage(total.setdefault(name, {}), value)
