"""The piece of a text that shows why it was found."""

from __future__ import annotations

from collections.abc import Sequence

_MARK = "…"


def snippet(text: str, phrase: str, terms: Sequence[str], chars: int) -> str:
    """About ``chars`` characters on one line around the phrase, else where most of the terms stand together; the
    terms that come first count most."""
    line = " ".join(text.split())
    if len(line) <= chars:
        return line
    # Lowering letters may change their number (İ): then places are a little off, which only moves the piece.
    lowered = line.lower()
    at = lowered.find(phrase) if phrase else -1
    start = at if at >= 0 else _richest(lowered, terms, chars)
    start = max(0, min(start - chars // 4, len(line) - chars))
    if start:
        start = _word_after(line, start)
    piece = line[start : start + chars].rstrip()
    end = start + len(piece)
    return f"{_MARK if start else ''}{piece}{_MARK if end < len(line) else ''}"


def _richest(text: str, terms: Sequence[str], chars: int) -> int:
    weights = {term: len(terms) - number for number, term in enumerate(terms)}
    places = sorted((at, term) for term in terms for at in _places(text, term))
    best, chosen = 0, 0
    for number, (at, _) in enumerate(places):
        near = {term for place, term in places[number : number + 50] if place < at + chars // 2}
        if (weight := sum(weights[term] for term in near)) > best:
            best, chosen = weight, at
    return chosen


def _places(text: str, term: str, most: int = 20) -> list[int]:
    found: list[int] = []
    at = text.find(term)
    while at >= 0 and len(found) < most:
        found.append(at)
        at = text.find(term, at + len(term))
    return found


def _word_after(text: str, start: int) -> int:
    space = text.find(" ", start, start + 20)
    return space + 1 if space >= 0 else start
