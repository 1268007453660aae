"""Replaces secrets in text by placeholders that are the same for the same secret and do not tell what it was."""

from __future__ import annotations

import hmac
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from app.redaction.shape import Kind
from app.redaction.shapes import SHAPES

PLACEHOLDER = re.compile(r"\[secret:[a-z0-9-]{1,40}(?::[0-9a-f]{6})?\]")
# Too short to be looked up, long enough to keep the secrets of a conversation apart.
_DIGITS = 6
# What a key is part of, whatever stands around it. Shorter than the shortest key.
_LONG_WORD = re.compile(r"[a-z0-9$+./:=_{}~-]{14,}")

# Start, end, priority of the kind (the lowest wins), name.
_Found = tuple[int, int, int, str]


class Redactor:
    """``key`` makes digests worthless to whoever does not have it; without one a placeholder says the kind alone.

    Pure: nothing is remembered, nothing is logged. Time grows with the length of the text.
    """

    def __init__(self, shapes: Sequence[Kind] = SHAPES, key: bytes = b"") -> None:
        self._kinds = tuple(enumerate(shapes))
        self._word_hints = _hints(kind for kind in shapes if kind.in_words)
        self._hints = _hints(kind for kind in shapes if not kind.in_words)
        self._key = key

    def text(self, text: str) -> str:
        """The text with each secret replaced by ``[secret:<kind>:<digest>]``. What has been replaced stays as it is."""
        found = self._found(text)
        if not found:
            return text
        parts, at = [], 0
        known: dict[tuple[str, str], str] = {}
        for start, end, _, name in found:
            secret = text[start:end]
            if (name, secret) not in known:
                known[name, secret] = self._placeholder(name, secret)
            parts += [text[at:start], known[name, secret]]
            at = end
        return "".join([*parts, text[at:]])

    def value(self, value: Any) -> Any:
        """The same for all texts in lists and mappings, keys too; what a key says of its value counts."""
        match value:
            case str():
                return self.text(value)
            case Mapping():
                named = _named(value)
                return {
                    self.value(key): self._under(named if named and key == "value" else key, item)
                    for key, item in value.items()
                }
            case list() | tuple():
                return type(value)(map(self.value, value)) if type(value) in (list, tuple) else value
            case _:
                return value

    def _under(self, key: Any, value: Any) -> Any:
        if isinstance(key, str) and type(value) in (list, tuple):
            return type(value)(self._under(key, item) for item in value)
        if not isinstance(key, str) or not isinstance(value, str):
            return self.value(value)
        prefix = f'{key}="'
        escaped = value.replace("\\", "\\\\").replace('"', '\\"')
        named = self.text(f'{prefix}{escaped}"')
        if not named.startswith(prefix):
            return self.text(value)
        shown = named[len(prefix) : -1]
        return shown if escaped == value or PLACEHOLDER.fullmatch(shown) else self.text(value)

    def _found(self, text: str) -> list[_Found]:
        """Where secrets stand, without overlaps, in order. What overlaps is one secret, so that no part of it stays."""
        lowered = _lowered(text)
        hints = {hint for hint in self._hints if hint in lowered}
        if self._word_hints:
            words = " ".join(_LONG_WORD.findall(lowered))
            hints.update(hint for hint in self._word_hints if hint in words)
        found = [
            (*span, priority, kind.name)
            for priority, kind in self._kinds
            if not kind.hints or not hints.isdisjoint(kind.hints)
            for span in kind.spans(text, lowered)
        ]
        merged = _merged(found)
        return list(_beside_placeholders(merged, text)) if merged and "[secret:" in lowered else merged

    def _placeholder(self, name: str, secret: str) -> str:
        if not self._key:
            return f"[secret:{name}]"
        digest = hmac.digest(self._key, secret.encode("utf-8", "surrogatepass"), "sha256").hex()
        return f"[secret:{name}:{digest[:_DIGITS]}]"


def _named(value: Mapping[Any, Any]) -> str | None:
    """What a pair of a name and a value, as in lists of variables and headers, names."""
    names = [name for key in ("name", "key") if isinstance(name := value.get(key), str)]
    return names[0] if names and "value" in value else None


def _hints(kinds: Iterable[Kind]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(hint for kind in kinds for hint in kind.hints))


def _merged(found: list[_Found]) -> list[_Found]:
    merged: list[_Found] = []
    for one in sorted(found):
        if merged and one[0] < merged[-1][1]:
            last = merged.pop()
            priority, name = min(last[2:], one[2:])
            one = (last[0], max(last[1], one[1]), priority, name)
        merged.append(one)
    return merged


def _beside_placeholders(found: list[_Found], text: str) -> Iterator[_Found]:
    """What was replaced before is no secret: of a span over it, only what stands beside it is one."""
    known = [match.span() for match in PLACEHOLDER.finditer(text)]
    at = 0
    for start, end, priority, name in found:
        while at < len(known) and known[at][1] <= start:
            at += 1
        covering = at
        while covering < len(known) and known[covering][0] < end:
            if _is_worth_it(text[start : known[covering][0]]):
                yield start, known[covering][0], priority, name
            start = known[covering][1]
            covering += 1
        if start < end and (covering == at or _is_worth_it(text[start:end])):
            yield start, end, priority, name


def _is_worth_it(piece: str) -> bool:
    """Whether what is left of a secret beside a placeholder is more than the signs between the two."""
    return any(letter.isalnum() for letter in piece)


def _lowered(text: str) -> str:
    """In lower case with every letter in its place: one letter there is becomes two."""
    return text.replace("İ", "i").lower()
