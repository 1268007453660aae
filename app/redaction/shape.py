"""What one kind of secret looks like, and where it stands in a text."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Protocol

Span = tuple[int, int]
Accept = Callable[[re.Match[str]], bool]
Way = tuple[re.Pattern[str], Accept]

# Of the named groups of a pattern, the first that matched is the secret; without one it is the whole match.
_GROUPS = ("secret", "quoted", "bare")
# Configured patterns are not known to be linear: they see a text in pieces, so that their time grows with its length.
WINDOW = 4_096
_OVERLAP = 512
# What was refused is looked at again for further cues, unless it is so long that this would take its time.
_SHORT = 64


class Kind(Protocol):
    """Anything that finds secrets. ``hints`` are words in lower case without one of which there is none of the kind,
    ``()`` when that cannot be said; ``in_words``: they stand within a long word, as keys do."""

    @property
    def name(self) -> str: ...

    @property
    def hints(self) -> tuple[str, ...]: ...

    @property
    def in_words(self) -> bool: ...

    def spans(self, text: str, lowered: str) -> Iterator[Span]:
        """Where secrets of this kind stand in ``text``. ``lowered`` is the text in lower case, letter for letter."""


def _anything(match: re.Match[str]) -> bool:
    return True


@dataclass(frozen=True, slots=True)
class Shape:
    """A kind of secret with one pattern.

    ``hints`` are how every match begins, in lower case: looking for those words first is what makes many shapes cheap.
    Without hints the pattern is looked for everywhere, in windows of the text. ``lead`` characters stand before the
    hint. ``accept`` has the last word.
    """

    name: str
    pattern: re.Pattern[str]
    hints: tuple[str, ...] = ()
    accept: Accept = _anything
    lead: int = 0
    in_words: bool = False

    def spans(self, text: str, lowered: str) -> Iterator[Span]:
        """From left to right for each hint."""
        if not self.hints:
            yield from self._windowed(text)
        for hint in self.hints:
            yield from self._hinted(text, lowered, hint)

    def _hinted(self, text: str, lowered: str, hint: str) -> Iterator[Span]:
        at = lowered.find(hint, self.lead)
        while at >= 0:
            match = self.pattern.match(text, at - self.lead)
            if match and self.accept(match):
                yield secret_of(match)
            at = lowered.find(hint, max(match.end() if match else 0, at + 1))

    def _windowed(self, text: str) -> Iterator[Span]:
        start = 0
        while start < len(text):
            end = min(start + WINDOW, len(text))
            reached = start
            for match in self.pattern.finditer(text, start, end):
                if match.end() == end < len(text) and match.start() > start:
                    # It may go on behind the window, so the next one begins with it.
                    reached = match.start()
                    break
                if match.end() > match.start():
                    yield secret_of(match)
                reached = match.end()
            else:
                reached = max(reached, end - _OVERLAP) if end < len(text) else end
            start = max(reached, start + 1)


@dataclass(frozen=True, slots=True)
class Cued:
    """Secrets that only their surroundings give away: ``cue`` is looked for in the lower case, and where it stands each
    of the ``ways`` is tried that may be meant there, a pattern that begins there and its judge."""

    name: str
    cue: re.Pattern[str]
    ways: Callable[[str, int], tuple[Way, ...]]
    hints: tuple[str, ...] = ()
    in_words: bool = False

    def spans(self, text: str, lowered: str) -> Iterator[Span]:
        """From left to right."""
        reached = 0
        for cue in self.cue.finditer(lowered):
            if cue.start() < reached:
                continue
            for pattern, accept in self.ways(text, cue.start()):
                match = pattern.match(text, cue.start())
                if not match:
                    continue
                start, end = secret_of(match)
                if accept(match):
                    yield start, end
                    reached = end
                    break
                if end - start > _SHORT:
                    reached = max(reached, end)


def secret_of(match: re.Match[str]) -> Span:
    """Which part of a match is the secret."""
    named = match.re.groupindex
    for group in _GROUPS:
        if group in named and match.start(group) >= 0:
            return match.span(group)
    return match.span()
