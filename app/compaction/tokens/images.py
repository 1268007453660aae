"""What pictures, sound and files in a message cost: by size or detail, never by their base64 text (rule
B3)."""

from __future__ import annotations

import base64
import binascii
import math
import struct
from collections.abc import Mapping
from typing import Any, Final

_LOW_DETAIL_TOKENS: Final = 85
_UNKNOWN_IMAGE_TOKENS: Final = 765
_MOST_IMAGE_TOKENS: Final = 1600
_PIXELS_PER_TOKEN: Final = 750
_UNKNOWN_FILE_TOKENS: Final = 1000
_BYTES_PER_TOKEN: Final = {"audio": 500, "video": 1000, "file": 30, "text": 4}
# Enough of a picture for its header; a JPEG may carry a thumbnail before its size.
_HEADER_CHARS: Final = 4 * 32 * 1024
_NESTED: Final = ("image_url", "source", "file", "input_audio", "image", "audio", "video", "document")
_PAYLOAD: Final = ("base64", "data", "bytes", "file_data", "url")
_MOST_NESTING: Final = 3


def image_tokens(block: Mapping[str, Any]) -> int:
    """Tokens of an image block of any provider's shape."""
    if _detail(block) == "low":
        return _LOW_DETAIL_TOKENS
    size = _dimensions(_header(_payload(block)))
    if size is None:
        return _UNKNOWN_IMAGE_TOKENS
    return max(_LOW_DETAIL_TOKENS, min(_MOST_IMAGE_TOKENS, math.ceil(size[0] * size[1] / _PIXELS_PER_TOKEN)))


def file_tokens(block: Mapping[str, Any], kind: str) -> int:
    """Tokens of an ``audio``, ``video``, ``file`` or ``text`` file block, from the size of what it
    carries."""
    payload = _payload(block)
    if payload is None:
        return _UNKNOWN_FILE_TOKENS
    size = len(payload) if isinstance(payload, bytes) else len(payload) * 3 // 4
    return max(_LOW_DETAIL_TOKENS, math.ceil(size / _BYTES_PER_TOKEN[kind]))


def _detail(block: Mapping[str, Any]) -> Any:
    nested = block.get("image_url")
    return nested.get("detail") if isinstance(nested, Mapping) else block.get("detail")


def _payload(block: Mapping[str, Any]) -> str | bytes | None:
    """The base64 text or bytes that a block carries; None when it only refers to them."""
    part: Any = block
    for _ in range(_MOST_NESTING):
        if isinstance(part, Mapping):
            part = next((part[key] for key in (*_PAYLOAD, *_NESTED) if part.get(key)), None)
    if isinstance(part, str) and part.startswith("data:"):
        return part.partition(",")[2]
    if isinstance(part, str) and "://" in part[:16]:
        return None
    return part if isinstance(part, str | bytes) else None


def _header(payload: str | bytes | None) -> bytes:
    if payload is None or isinstance(payload, bytes):
        return payload or b""
    try:
        return base64.b64decode(payload[:_HEADER_CHARS] + "==")
    except (binascii.Error, ValueError):
        return b""


def _dimensions(data: bytes) -> tuple[int, int] | None:
    """Width and height in pixels of a PNG, GIF, WebP or JPEG, from its header; None when it cannot be
    told."""
    try:
        if data.startswith(b"\x89PNG"):
            return struct.unpack(">II", data[16:24])
        if data.startswith(b"GIF8"):
            return struct.unpack("<HH", data[6:10])
        if data[8:16] == b"WEBPVP8X":
            return _plus_one(data[24:27]), _plus_one(data[27:30])
        return _jpeg_dimensions(data) if data.startswith(b"\xff\xd8") else None
    except struct.error:
        return None


def _plus_one(little_endian: bytes) -> int:
    return int.from_bytes(little_endian, "little") + 1


def _jpeg_dimensions(data: bytes) -> tuple[int, int] | None:
    """Walks the segments up to the frame header, the one that holds the size."""
    at = 2
    while at + 9 <= len(data) and data[at] == 0xFF:
        marker = data[at + 1]
        if 0xC0 <= marker <= 0xCF and marker not in (0xC4, 0xC8, 0xCC):
            height, width = struct.unpack(">HH", data[at + 5 : at + 9])
            return width, height
        at += 2 + max(2, struct.unpack(">H", data[at + 2 : at + 4])[0])
    return None
