"""What one message costs in a request: content blocks, tool calls, name, overhead (rule B3)."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import Any, Final

from langchain_core.messages import BaseMessage

from app.compaction.roles import is_ai
from app.compaction.tokens.images import file_tokens, image_tokens

MESSAGE_OVERHEAD: Final = 4
_CALL_OVERHEAD: Final = 6
_REDACTED_TOKENS: Final = 50

_TEXT: Final = frozenset({"text", "input_text", "output_text", "text-plain", "refusal"})
_IMAGES: Final = frozenset({"image", "image_url", "input_image"})
_FILES: Final = {
    "audio": "audio",
    "input_audio": "audio",
    "video": "video",
    "file": "file",
    "input_file": "file",
    "document": "file",
    "media": "file",
}
_CALLS: Final = frozenset(
    {"tool_use", "tool_call", "tool_call_chunk", "function_call", "input_json_delta", "invalid_tool_call"}
)
_MOST_DEPTH: Final = 8
# Ciphertext and signatures are carried for the provider; no model reads them as text.
_OPAQUE: Final = frozenset({"data", "base64", "bytes", "signature", "encrypted_content", "thought_signature"})

TextTokens = Callable[[str], int]


def as_json(value: Any) -> str:
    """A value as it is written into a request."""
    try:
        return json.dumps(value, ensure_ascii=False, separators=(",", ":"), default=str)
    except (TypeError, ValueError):  # keys that are no strings, a value that contains itself
        return repr(value)
    except RecursionError:  # deeper than any request can be
        return ""


def costed_parts(message: BaseMessage) -> tuple[Any, ...]:
    """The parts of a message that its cost depends on, and nothing else."""
    if not is_ai(message):
        return (message.type, message.name, message.content)
    extra = message.additional_kwargs
    calls = [*message.tool_calls, *message.invalid_tool_calls] or extra.get("tool_calls") or None
    return (message.type, message.name, message.content, calls, extra.get("reasoning_content"))


def message_tokens(parts: tuple[Any, ...], text: TextTokens) -> int:
    """Tokens of a message, from its ``costed_parts``."""
    _, name, content, *of_ai = parts
    calls, reasoning = of_ai or (None, None)
    tokens = MESSAGE_OVERHEAD + (text(name) if name else 0) + _content_tokens(content, bool(calls), text)
    if calls:
        tokens += sum(_call_tokens(call, text) for call in calls)
    if isinstance(reasoning, str):
        tokens += text(reasoning)
    return tokens


def _content_tokens(content: Any, has_calls: bool, text: TextTokens) -> int:
    if isinstance(content, str):
        return text(content)
    blocks = content if isinstance(content, list) else [content]
    return sum(_block_tokens(block, has_calls, text) for block in blocks)


def _call_tokens(call: Any, text: TextTokens) -> int:
    """A call in LangChain's form, parsed or not, or in the provider's own."""
    if not isinstance(call, Mapping) or "args" not in call:
        return _CALL_OVERHEAD + text(as_json(call))
    args = call["args"]
    written = args if isinstance(args, str) else as_json(args)
    return _CALL_OVERHEAD + text(call.get("name") or "") + text(written)


def _block_tokens(block: Any, has_calls: bool, text: TextTokens) -> int:
    if isinstance(block, str):
        return text(block)
    if not isinstance(block, Mapping):
        return text(as_json(block))
    kind = str(block.get("type"))  # imported histories hold blocks of any shape
    if kind in _TEXT and isinstance(block.get("text"), str):
        return text(block["text"])
    if kind in _CALLS and has_calls:
        return 0  # counted once, as a parsed call
    if kind == "redacted_thinking":
        return _REDACTED_TOKENS
    return _media_tokens(block, kind, text)


def _media_tokens(block: Mapping[str, Any], kind: str, text: TextTokens) -> int:
    if kind in _IMAGES or "image" in block:
        return image_tokens(block)
    if kind in _FILES and not isinstance(block.get("text"), str):
        return file_tokens(block, _file_kind(block, _FILES[kind]))
    return text(as_json(_readable(block)))


def _file_kind(block: Mapping[str, Any], kind: str) -> str:
    """The kind by media type where the block only says that it is a file."""
    source = block.get("source")
    nested = source.get("media_type") if isinstance(source, Mapping) else None
    family = str(block.get("mime_type") or nested or "").partition("/")[0]
    return family if family in ("audio", "video", "text") else kind


def _readable(value: Any, depth: int = 0) -> Any:
    """A block without ciphertext, signatures and embedded files."""
    if isinstance(value, str):
        return "" if value.startswith("data:") else value
    if depth == _MOST_DEPTH:
        return value
    if isinstance(value, Mapping):
        return {key: _readable(part, depth + 1) for key, part in value.items() if key not in _OPAQUE}
    return [_readable(part, depth + 1) for part in value] if isinstance(value, list) else value
