"""Making a text fit a number of tokens: from its head, from its tail, or section by section.

The results fit; they are not always the longest that would.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence

Count = Callable[[str], int]
"""Tokens of a text."""

# No text has more characters to a token than this, so longer ones need not be counted whole to be cut.
_MAX_CHARS_PER_TOKEN = 12
_SHRINK = 0.95
_BOUNDARY = re.compile(r"[。！？；]|[.!?;]\s|\s")
_HEADING = re.compile(r"^(?=#{1,6}\s|\*\*[^*\n]+\*\*:?\s*$)", re.MULTILINE)
_PARAGRAPH = re.compile(r"(?<=\n)\n+")
_MIN_SECTION_TOKENS = 24
_MARK = "…"


def head(text: str, tokens: int, count: Count) -> str:
    """The beginning of ``text`` that fits into ``tokens``, ended at a line or word if one is near."""
    return text[: _whole_words(text, _fitting(text, tokens, count, lambda n: text[:n]))]


def tail(text: str, tokens: int, count: Count) -> str:
    """The end of ``text`` that fits into ``tokens``."""
    size = _fitting(text, tokens, count, lambda n: text[len(text) - n :])
    return text[len(text) - size :]


def fair_cap(sizes: Sequence[int], total: int) -> int:
    """The largest cap with ``sum(min(size, cap)) <= total``: small ones stay whole, large ones share."""
    left = total
    for position, size in enumerate(ordered := sorted(sizes)):
        share = left // (len(ordered) - position)
        if size > share:
            return share
        left -= size
    return total


def by_sections(text: str, tokens: int, count: Count) -> str:
    """``text`` within ``tokens`` with every section still there, each cut at its end by its share (rule E4).

    Sections are what headings part; without headings, paragraphs.
    """
    if count(text) <= tokens:
        return text
    sections = _sections(text, max(1, tokens // _MIN_SECTION_TOKENS))
    sizes = [count(section) for section in sections]
    room, result = tokens, ""
    while room > 0:
        cap = fair_cap(sizes, room)
        result = "\n".join(
            _cut(s, size, cap, count) for s, size in zip(sections, sizes, strict=True)
        ).rstrip()
        if count(result) <= tokens:
            return result
        room = min(room - 1, int(room * _SHRINK))
    return head(text, tokens, count)


def _sections(text: str, most: int) -> list[str]:
    """The sections of a text, each ended by one line break; neighbours are joined when there are too many."""
    parts = [part for part in _HEADING.split(text) if part.strip()]
    if len(parts) == 1:
        parts = [part for part in _PARAGRAPH.split(text) if part.strip()]
    size = -(-len(parts) // most)
    return ["".join(parts[i : i + size]).rstrip("\n") + "\n" for i in range(0, len(parts), size)]


def _cut(section: str, size: int, cap: int, count: Count) -> str:
    if size <= cap:
        return section
    kept = head(section, cap - count(_MARK) - 1, count).rstrip()
    return f"{kept} {_MARK}\n" if kept else ""


def _fitting(text: str, tokens: int, count: Count, piece: Callable[[int], str]) -> int:
    """The number of characters whose ``piece`` fits into ``tokens``."""
    length = min(len(text), max(tokens, 0) * _MAX_CHARS_PER_TOKEN)
    while length and (used := count(piece(length))) > tokens:
        length = min(length - 1, int(length * tokens / used * _SHRINK))
    return length


def _whole_words(text: str, length: int) -> int:
    """``length`` moved back to a line end in its last fifth, else to a sentence or word, else as it is."""
    if length >= len(text):
        return length
    start = length - length // 5
    newline = text.rfind("\n", start, length)
    if newline >= 0:
        return newline + 1
    ends = [found.end() for found in _BOUNDARY.finditer(text, start, length)]
    return ends[-1] if ends else length
