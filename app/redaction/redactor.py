"""Replaces secrets in text by placeholders that are the same for the same secret and do not tell what it was."""

from __future__ import annotations

import hashlib
import hmac
import re
from collections.abc import Mapping, Sequence
from typing import Any

from app.redaction.shape import Shape
from app.redaction.shapes import SHAPES

PLACEHOLDER = re.compile(r"\[secret:[a-z0-9-]{1,40}(?::[0-9a-f]{6})?\]")
# Too short to be looked up, long enough to keep the secrets of a conversation apart. Shorter than anything that an
# assignment has for a value, so that no placeholder looks like a secret.
_DIGITS = 6

# Start, end, priority of the shape (the lowest wins), name.
_Found = tuple[int, int, int, str]


class Redactor:
    """``key`` makes digests worthless to whoever does not have it; without one a placeholder says the kind alone.

    Pure: nothing is remembered, nothing is logged. Time grows with the length of the text.
    """

    def __init__(self, shapes: Sequence[Shape] = SHAPES, key: bytes = b"") -> None:
        self._shapes = tuple(enumerate(shapes))
        self._hints = tuple(dict.fromkeys(hint for shape in shapes for hint in shape.hints))
        self._key = key

    def text(self, text: str) -> str:
        """The text with each secret replaced by ``[secret:<kind>:<digest>]``. What has been replaced stays as it is."""
        found = self._found(text)
        if not found:
            return text
        parts, at = [], 0
        for start, end, _, name in found:
            parts += [text[at:start], self._placeholder(name, text[start:end])]
            at = end
        return "".join([*parts, text[at:]])

    def value(self, value: Any) -> Any:
        """The same for all texts in lists and mappings, keys too; what a key says of its value counts."""
        match value:
            case str():
                return self.text(value)
            case Mapping():
                return {self.value(key): self._under(key, item) for key, item in value.items()}
            case list() | tuple():
                return type(value)(map(self.value, value)) if type(value) in (list, tuple) else value
            case _:
                return value

    def _under(self, key: Any, value: Any) -> Any:
        if not isinstance(key, str) or not isinstance(value, str):
            return self.value(value)
        prefix = f'{key}="'
        named = self.text(f'{prefix}{value}"')
        return named[len(prefix) : -1] if named.startswith(prefix) else self.text(value)

    def _found(self, text: str) -> list[_Found]:
        """Where secrets stand, without overlaps, in order. What overlaps is one secret, so that no part of it stays."""
        lowered = _lowered(text)
        hints = frozenset(hint for hint in self._hints if hint in lowered)
        found: list[_Found] = [
            (*span, priority, shape.name)
            for priority, shape in self._shapes
            if not shape.hints or not hints.isdisjoint(shape.hints)
            for span in shape.spans(text, lowered)
        ]
        if found and "[secret:" in lowered:
            known = [match.span() for match in PLACEHOLDER.finditer(text)]
            found = [one for one in found if not any(s <= one[0] and one[1] <= e for s, e in known)]
        merged: list[_Found] = []
        for one in sorted(found):
            if merged and one[0] < merged[-1][1]:
                last = merged.pop()
                priority, name = min(last[2:], one[2:])
                one = (last[0], max(last[1], one[1]), priority, name)
            merged.append(one)
        return merged

    def _placeholder(self, name: str, secret: str) -> str:
        if not self._key:
            return f"[secret:{name}]"
        digest = hmac.new(self._key, secret.encode("utf-8", "surrogatepass"), hashlib.sha256).hexdigest()
        return f"[secret:{name}:{digest[:_DIGITS]}]"


def _lowered(text: str) -> str:
    """In lower case with every letter in its place: some letters become two."""
    lowered = text.lower()
    if len(lowered) == len(text):
        return lowered
    return "".join(low if len(low := letter.lower()) == 1 else letter for letter in text)
