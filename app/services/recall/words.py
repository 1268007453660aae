"""Words of a text as an index keeps them: names and paths whole and in parts, scripts without spaces in pairs."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator
from dataclasses import dataclass

# Scripts that are written without spaces, or whose words carry endings: found by one and two characters.
_DENSE = (
    "\u0e00-\u0eff\u1000-\u109f\u1100-\u11ff\u1780-\u17ff\u3005-\u3007\u3040-\u30ff\u3100-\u318f\u31f0-\u31ff"
    "\u3400-\u4dbf\u4e00-\u9fff\ua960-\ua97f\uac00-\ud7ff\uf900-\ufaff\U00020000-\U0003ffff"
)
_LETTER = rf"[^\W{_DENSE}]"
# A whole: words joined by what joins them in paths, addresses, versions, qualified names.
_WHOLE = re.compile(rf"{_LETTER}+(?:[.:/\\@#+~=?&%-]{{1,3}}{_LETTER}+)*|[{_DENSE}]+")
# A path keeps its folders when its line number goes, and its name when its folders go.
_OUTER = re.compile(r"[:?&=@#]+")
_INNER = re.compile(r"[/\\]+")
_WORD = re.compile(r"\w+")
_PART = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[^\WA-Z_\d]+|\d+")
# A digit, a mark inside, or a capital behind a small letter.
_IS_NAME = re.compile(r"\d|_|\w\W|[^\WA-Z_][A-Z]")
_IS_DENSE = re.compile(rf"[{_DENSE}]")

LONGEST = 120
MAX_TERMS = 24
MAX_PROSE = 6


@dataclass(frozen=True, slots=True)
class Query:
    """What somebody looks for. ``text`` is it in one line, in the form in which texts are compared. ``words`` are in
    every text that has all of the query; ``terms`` are the wholes, and then what they are made of, longest first;
    ``names`` are the wholes that are no words of prose."""

    text: str
    words: tuple[str, ...]
    terms: tuple[str, ...]
    names: frozenset[str]

    @property
    def telling(self) -> list[str]:
        """The terms to look for one by one: a long sentence has many that nearly every message has."""
        prose = [term for term in self.terms if term not in self.names and term.isascii()]
        left_out = set(sorted(prose, key=len, reverse=True)[MAX_PROSE:])
        return [term for term in self.terms if term not in left_out]


def query_of(text: str) -> Query:
    """At most ``MAX_TERMS`` words and terms: what is beyond says little more."""
    words: dict[str, None] = {}
    wholes: dict[str, None] = {}
    parts: dict[str, None] = {}
    names: set[str] = set()
    for found in _WHOLE.finditer(normal(text)):
        whole = found[0]
        if _IS_DENSE.match(whole):
            pairs = dict.fromkeys(_pairs(whole) or [whole])
            words |= pairs
            wholes |= pairs
            continue
        wholes[_term(whole)] = None
        if _IS_NAME.search(whole):
            names.add(_term(whole))
        words |= dict.fromkeys(map(_term, _WORD.findall(whole)))
        parts |= dict.fromkeys(_within(whole))
    rest = sorted((part for part in parts if part not in wholes), key=len, reverse=True)
    terms = (*wholes, *rest)[:MAX_TERMS]
    return Query(folded(text), tuple(words)[:MAX_TERMS], terms, frozenset(names))


def words_in(text: str) -> Iterator[tuple[str, int]]:
    """Every term of a text with its place, counted in words from 1."""
    place = 0
    for found in _WHOLE.finditer(normal(text)):
        whole = found[0]
        if _IS_DENSE.match(whole):
            for at, char in enumerate(whole):
                place += 1
                yield char, place
                if at + 1 < len(whole):
                    yield whole[at : at + 2], place
            continue
        place += 1
        yield _term(whole), place
        for part in _within(whole):
            yield part, place


def normal(text: str) -> str:
    """Full-width and other compatibility forms as the usual ones."""
    return text if text.isascii() else unicodedata.normalize("NFKC", text)


def folded(text: str) -> str:
    """A text for comparing: on one line, small letters."""
    return " ".join(normal(text).lower().split())


def _within(whole: str) -> Iterator[str]:
    """Pieces of a whole, words of a piece, parts of a word; without those that are the whole itself."""
    words = _WORD.findall(whole)
    if len(words) > 1:
        for piece in _OUTER.split(whole):
            inner = _INNER.split(piece)
            for part in (piece, *inner) if len(inner) > 1 else inner:
                if part and part != whole:
                    yield _term(part)
    for word in words:
        if word != whole:
            yield _term(word)
        parts = _PART.findall(word)
        if len(parts) > 1:
            yield from map(_term, parts)


def _pairs(run: str) -> list[str]:
    return [run[at : at + 2] for at in range(len(run) - 1)]


def _term(text: str) -> str:
    return text[:LONGEST].lower()
