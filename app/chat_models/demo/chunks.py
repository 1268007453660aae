"""Cut a finished message into the chunks a provider would have streamed; their sum is the message again."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any

from langchain_core.messages import AIMessage, AIMessageChunk
from langchain_core.messages.tool import tool_call_chunk

_TOKEN = re.compile(r"\s*\S{1,12}\s*|\s+")
_TEXT_KEYS = {"text": "text", "reasoning": "reasoning", "thinking": "thinking"}


def tokens_of(text: str) -> list[str]:
    """``text`` in pieces of a word at most; joined they are the text again."""
    return _TOKEN.findall(text)


def chunks_of(message: AIMessage) -> Iterator[AIMessageChunk]:
    """The message token by token, then its tool calls one by one, then its metadata with the usage."""
    for content in _contents(message.content):
        yield AIMessageChunk(content=content, id=message.id)
    empty: Any = "" if isinstance(message.content, str) else []
    for index, (name, args, call_id) in enumerate(_calls(message)):
        call = tool_call_chunk(name=name, args=args, id=call_id, index=index)
        yield AIMessageChunk(content=empty, id=message.id, tool_call_chunks=[call])
    yield AIMessageChunk(
        content=empty,
        id=message.id,
        name=message.name,
        additional_kwargs=message.additional_kwargs,
        response_metadata=message.response_metadata,
        usage_metadata=message.usage_metadata,
        chunk_position="last",
    )


def _contents(content: str | list[str | dict[str, Any]]) -> Iterator[Any]:
    if isinstance(content, str):
        yield from tokens_of(content)
        return
    for index, block in enumerate(content):
        for part in _parts(block):
            yield [{**part, "index": index}]


def _parts(block: str | dict[str, Any]) -> Iterator[dict[str, Any]]:
    block = {"type": "text", "text": block} if isinstance(block, str) else block
    key = _TEXT_KEYS.get(str(block.get("type")))
    if key is None or not isinstance(block.get(key), str):
        yield block
        return
    for token in tokens_of(block[key]) or [""]:
        yield {**block, key: token}


def _calls(message: AIMessage) -> Iterator[tuple[str | None, str | None, str | None]]:
    for call in message.tool_calls:
        yield call["name"], json.dumps(call["args"], ensure_ascii=False), call["id"]
    for invalid in message.invalid_tool_calls:
        yield invalid["name"], invalid["args"], invalid["id"]
