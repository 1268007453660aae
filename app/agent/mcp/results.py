"""What an MCP server returned, as far as a conversation can hold it."""

from __future__ import annotations

import json
from typing import Any

from mcp.types import (
    AudioContent,
    BlobResourceContents,
    CallToolResult,
    ContentBlock,
    EmbeddedResource,
    TextContent,
)

# Structured content repeats what the text says, and stays in the state for front ends.
_MOST_STRUCTURED_CHARACTERS = 20_000


def readable(result: CallToolResult) -> CallToolResult:
    """The result with words for what no model is sent, and without structured content too large for the state. One that
    is nothing but structured is shown as JSON."""
    structured = result.structuredContent
    text = json.dumps(structured, ensure_ascii=False) if structured is not None else ""
    content: list[ContentBlock] = [_readable(block) for block in result.content]
    if not content and structured is not None:
        content = [TextContent(type="text", text=text)]
    fits = len(text) <= _MOST_STRUCTURED_CHARACTERS
    return CallToolResult(
        content=content, structuredContent=structured if fits else None, isError=result.isError
    )


def failure(sentence: str) -> CallToolResult:
    """A result that tells the model what went wrong."""
    return CallToolResult(content=[TextContent(type="text", text=sentence)], isError=True)


def _readable(block: ContentBlock) -> ContentBlock:
    match block:
        case AudioContent():
            return _omitted("audio", block.mimeType, block.data)
        case EmbeddedResource(resource=BlobResourceContents() as blob) if not _is_image(blob):
            return _omitted("a file", blob.mimeType, blob.blob)
        case _:
            return block


def _is_image(blob: BlobResourceContents) -> bool:
    return (blob.mimeType or "").startswith("image/")


def _omitted(what: str, kind: str | None, data: str) -> TextContent:
    described: Any = f" of type {kind}" if kind else ""
    return TextContent(type="text", text=f"[{what}{described}, {len(data) * 3 // 4} bytes, is not shown]")
