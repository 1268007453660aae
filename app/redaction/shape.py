"""What one kind of secret looks like, and where it stands in a text."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass

Span = tuple[int, int]
Accept = Callable[[re.Match[str]], bool]

# Of the named groups of a pattern, the first that matched is the secret; without one it is the whole match.
_GROUPS = ("secret", "quoted", "bare")
# Configured patterns are not known to be linear: they see a text in pieces, so that their time grows with its length.
WINDOW = 4_096
_OVERLAP = 512


def _anything(match: re.Match[str]) -> bool:
    return True


@dataclass(frozen=True, slots=True)
class Shape:
    """A kind of secret.

    ``hints`` are how every match begins, in lower case: looking for those words first is what makes many shapes cheap.
    Without hints the pattern is looked for everywhere, in windows of the text. ``accept`` has the last word.
    """

    name: str
    pattern: re.Pattern[str]
    hints: tuple[str, ...] = ()
    accept: Accept = _anything

    def spans(self, text: str, lowered: str) -> Iterator[Span]:
        """Where secrets of this kind stand in ``text``, from left to right for each hint. ``lowered`` is the text in
        lower case, letter for letter."""
        if not self.hints:
            yield from self._windowed(text)
        for hint in self.hints:
            yield from self._hinted(text, lowered, hint)

    def _hinted(self, text: str, lowered: str, hint: str) -> Iterator[Span]:
        at = lowered.find(hint)
        while at >= 0:
            match = self.pattern.match(text, at)
            if match and self.accept(match):
                yield _secret(match)
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
                    yield _secret(match)
                reached = match.end()
            else:
                reached = max(reached, end - _OVERLAP) if end < len(text) else end
            start = max(reached, start + 1)


def _secret(match: re.Match[str]) -> Span:
    named = match.re.groupindex
    for group in _GROUPS:
        if group in named and match.start(group) >= 0:
            return match.span(group)
    return match.span()
