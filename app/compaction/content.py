"""The content of a message as words (rule D3).

Images, audio, video and files appear as a handle (type, name, URL or id); base64 never does. Reasoning is
left out.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from langchain_core.messages import BaseMessage

_TEXT_BLOCKS = frozenset({"text", "input_text", "output_text"})
_REASONING_BLOCKS = frozenset({"reasoning", "reasoning_content", "thinking", "redacted_thinking"})
# Shown from ``tool_calls`` instead, which every integration fills.
CALL_BLOCKS = frozenset({"tool_use", "tool_call", "tool_call_chunk", "function_call", "input_json_delta"})
_MEDIA_BLOCKS = {
    "image": "image",
    "image_url": "image",
    "input_image": "image",
    "audio": "audio",
    "input_audio": "audio",
    "video": "video",
    "media": "media",
    "file": "file",
    "input_file": "file",
    "document": "document",
    "text-plain": "text file",
}
_BINARY_KEYS = frozenset({"base64", "data", "bytes", "file_data", "signature", "encrypted_content"})
_BASE64 = re.compile(r"[A-Za-z0-9+/=_\-\r\n]+")
_LONG = 256
_MAX_DETAIL = 500
_DATA_URL = re.compile(r"data:([\w.+-]+/[\w.+-]+)?[\w=;.+-]*;base64,[A-Za-z0-9+/=_-]{64,}")


def text_of(message: BaseMessage) -> str:
    """The words of a message: its text blocks, without calls, media and reasoning."""
    if isinstance(message.content, str):
        return message.content
    return "\n".join(
        part if isinstance(part, str) else str(part.get("text", ""))
        for part in message.content
        if isinstance(part, str) or part.get("type") in _TEXT_BLOCKS
    )


def shown(content: str | Sequence[str | Mapping[str, Any]]) -> str:
    """All that a transcript shows of a message's content; "" for one that holds only reasoning or calls."""
    if isinstance(content, str):
        return _without_data_urls(content)
    return "\n".join(text for text in map(_block, content) if text)


def handle(kind: str, block: Mapping[str, Any]) -> str:
    """``[image · image/png · chart.png · https://…]``: what is known of a medium, never its bytes."""
    found = dict(_flat(block))
    url = found.get("url") or found.get("image_url") or found.get("path") or ""
    details = [
        found.get("mime_type") or found.get("media_type") or found.get("format") or _mime_of(url),
        found.get("filename") or found.get("name") or found.get("title"),
        None if url.startswith("data:") else url,
        found.get("file_id") or found.get("id"),
    ]
    return f"[{' · '.join([kind, *(detail[:_MAX_DETAIL] for detail in details if detail)])}]"


def as_json(value: Any) -> str:
    """A value on one line, binary data left out; a string as it is."""
    if isinstance(value, str):
        return _without_data_urls(value)
    return json.dumps(_without_binary(value), ensure_ascii=False, default=str)


def _block(block: str | Mapping[str, Any]) -> str:
    if isinstance(block, str):
        return _without_data_urls(block)
    kind = block.get("type")
    if kind in _REASONING_BLOCKS or kind in CALL_BLOCKS:
        return ""
    if kind in _MEDIA_BLOCKS:
        return _media(_MEDIA_BLOCKS[kind], block)
    if kind == "refusal":
        return str(block.get("refusal", ""))
    if kind in _TEXT_BLOCKS or (kind is None and "text" in block):
        return _without_data_urls(str(block.get("text", "")))
    return as_json(block)


def _media(kind: str, block: Mapping[str, Any]) -> str:
    """The handle, and below it the text of a medium that carries text (a document, a plain text file)."""
    source = block.get("source")
    inner = source if isinstance(source, Mapping) else {}
    texts = [
        block.get("text"),
        inner.get("data") if inner.get("type") == "text" else None,
        shown(inner["content"]) if inner.get("type") == "content" else None,
    ]
    return "\n".join([handle(kind, block), *(_without_data_urls(text) for text in texts if text)])


def _flat(block: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """The string values of a block, inner ones first: providers nest the same facts in different places."""
    for value in block.values():
        if isinstance(value, Mapping):
            yield from _flat(value)
    for key, value in block.items():
        if isinstance(value, str) and key not in _BINARY_KEYS:
            yield key, value


def _mime_of(url: str) -> str | None:
    return url[5:].partition(";")[0] if url.startswith("data:") else None


def _without_binary(value: Any, key: str = "") -> Any:
    match value:
        case str() if key in _BINARY_KEYS and len(value) > _LONG and _BASE64.fullmatch(value):
            return f"[{len(value)} characters of data]"
        case str():
            return _without_data_urls(value)
        case Mapping():
            return {k: _without_binary(v, str(k)) for k, v in value.items()}
        case list() | tuple():
            return [_without_binary(item) for item in value]
        case _:
            return value


def _without_data_urls(text: str) -> str:
    if ";base64," not in text:
        return text
    return _DATA_URL.sub(lambda found: f"[inline {found[1] or 'data'}]", text)
