"""Which of the messages that hold something of a query are meant: one pure function for archived and live ones."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from app.services.recall.text import Said
from app.services.recall.words import Query, folded

# Of the weight of all terms: what it is worth that the query stands there word for word, and that all of it is there.
_PHRASE, _EVERY = 2.0, 1.0
# Who writes a name or a number among other words looks for that one.
_NAME = 3.0
# A term inside of a longer word; and what a word counts that is only spelt like the term.
_INSIDE, _SPELT = 0.3, 0.6
_SATURATION, _BY_LENGTH = 1.2, 0.4
_MOST_COUNTED = 8
# What scores less than this share of the best has some common word of the query and nothing else.
_LEAST = 0.04


@dataclass(frozen=True, slots=True)
class Candidate:
    """A message, or a part of it, that may be meant. ``order`` is larger for newer ones."""

    said: Said
    text: str
    order: int
    archived: bool


@dataclass(frozen=True, slots=True)
class Ranked:
    candidate: Candidate
    score: float


@dataclass(frozen=True, slots=True)
class Rarity:
    """How much each term says: the fewer of ``total`` messages have it, the more. One that nobody counted is taken for
    a common word."""

    counts: Mapping[str, int]
    total: int

    def of(self, term: str) -> float:
        known = self.counts.get(term, self.total / 2)
        total = max(self.total, known)
        return math.log(1 + (total - known + 0.5) / (known + 0.5))


def rank(
    candidates: Sequence[Candidate],
    query: Query,
    rarity: Rarity,
    spellings: Mapping[str, Sequence[str]],
) -> list[Ranked]:
    """Best first, each message once, those with hardly anything of the query left out. Of equal ones the newest first.

    ``spellings`` are words to be taken for a term that nobody used.
    """
    texts = [folded(candidate.text) for candidate in candidates]
    mean = max(1.0, sum(map(len, texts)) / max(1, len(texts)))
    scorer = _Scorer(query, rarity, spellings, mean)
    scored = [
        Ranked(candidate, scorer.score(text)) for candidate, text in zip(candidates, texts, strict=True)
    ]
    scored.sort(key=lambda each: (each.score, each.candidate.order), reverse=True)
    least = _LEAST * scored[0].score if scored else 0.0
    best: dict[str, Ranked] = {}
    for each in scored:
        if each.score > least:
            best.setdefault(each.candidate.said.message_id, each)
    return list(best.values())


class _Scorer:
    def __init__(
        self, query: Query, rarity: Rarity, spellings: Mapping[str, Sequence[str]], mean_chars: float
    ) -> None:
        self._query = query
        self._spellings = spellings
        self._weights = {
            term: rarity.of(term) * (_NAME if term in query.names else 1) for term in query.terms
        }
        self._all = sum(self._weights.values())
        self._mean = mean_chars

    def score(self, text: str) -> float:
        length = _SATURATION * (1 - _BY_LENGTH + _BY_LENGTH * len(text) / self._mean)
        score = sum(self._of_term(term, weight, text, length) for term, weight in self._weights.items())
        if score and (phrase := _times(text, self._query.text)):
            score += _PHRASE * self._all * min(phrase, 1.0)
        if score and all(word in text for word in self._query.words):
            score += _EVERY * self._all
        return score

    def _of_term(self, term: str, weight: float, text: str, length: float) -> float:
        times = _times(text, term)
        if not times:
            times = _SPELT * max((_times(text, word) for word in self._spellings.get(term, ())), default=0.0)
        return weight * times * (_SATURATION + 1) / (times + length)


def _times(text: str, term: str) -> float:
    """How often the term stands in the text by itself; a part of one where it is only inside of other words."""
    found = text.find(term)
    inside = found >= 0
    count = 0
    while found >= 0 and count < _MOST_COUNTED:
        end = found + len(term)
        if not (_joins(text[found - 1 : found], term[0]) or _joins(text[end : end + 1], term[-1])):
            count += 1
        found = text.find(term, end)
    return count or (_INSIDE if inside else 0.0)


def _joins(neighbour: str, edge: str) -> bool:
    """Whether the two are letters of one word. An underscore parts words; scripts without spaces have no edges."""
    return neighbour.isalnum() and edge.isalnum() and neighbour.isascii() and edge.isascii()
