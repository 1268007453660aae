"""A summary without a model: what can be copied out of the messages themselves (rule E7).

Deterministic, linear in the size of the messages, and marked as what it is in its first line.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

from langchain_core.messages import BaseMessage

from app.compaction.content import text_of
from app.compaction.render import Transcript
from app.compaction.roles import is_human, is_real_user_message
from app.compaction.shorten import Count, by_sections, head
from app.compaction.types import Redact, unchanged

EXTRACTIVE_MARK = "[Extractive summary: copied from the conversation, as no model could summarise it]"

# Shares of the room; what a section leaves goes to the next one.
_REQUESTS, _PREVIOUS, _LAST, _REFERENCES = 0.3, 0.3, 0.2, 0.2
_LINE_TOKENS = 120
_LAST_MESSAGES = 3
_HEADING = re.compile(r"^#{1,6}\s+", re.MULTILINE)
_WORD = r"[\w.@+-]{1,80}"
_REFERENCE = re.compile(
    r"https?://[^\s<>\"'`)\]}]{1,300}"
    rf"|(?<![\w.@+/-])(?:~|\.{{1,2}})?/{_WORD}(?:/{_WORD}){{1,15}}"
    rf"|(?<![\w.@+/-])(?:{_WORD}/){{1,15}}[\w@+-]{{1,80}}\.[A-Za-z]\w{{0,7}}\b"
    r"|\b[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}\b"
    r"|\b[A-Z][A-Z0-9]{1,9}-\d{1,9}\b"
)


def extractive_summary(
    messages: Sequence[BaseMessage],
    previous: str | None,
    max_tokens: int,
    count: Count,
    redact: Redact = unchanged,
) -> str:
    """What the user asked, the previous summary, where the work stands, and paths, links and ids.

    At most ``max_tokens`` tokens by ``count``, the mark excepted when not even that fits. ``redact`` takes secrets out.
    """
    page = _Page(max_tokens - count(EXTRACTIVE_MARK) - 1, count)
    transcript = Transcript(messages, redact)
    page.add("Requests of the user", _requests(messages, count, redact), _REQUESTS)
    page.add_text("Summary before this one", _before(previous), _PREVIOUS)
    page.add("Last messages", _last(transcript, count), _LAST)
    page.add("Paths, links and ids", _references(transcript), _REFERENCES)
    return f"{EXTRACTIVE_MARK}\n{page.text}".strip()


class _Page:
    """Sections within a number of tokens."""

    def __init__(self, tokens: int, count: Count) -> None:
        self._tokens = tokens
        self._count = count
        self._left_over = 0.0
        self._sections: list[str] = []

    @property
    def text(self) -> str:
        return by_sections("\n\n".join(self._sections), self._tokens, self._count) if self._tokens > 0 else ""

    def add(self, title: str, lines: Sequence[tuple[int, str]], share: float) -> None:
        """``lines`` are (place, line), the most important first; those that fit are put in order of place."""
        room = self._room(share) - self._count(f"## {title}\n")
        chosen: list[tuple[int, str]] = []
        for place, line in lines:
            cost = self._count(f"- {line}\n")
            if cost <= room:
                room -= cost
                chosen.append((place, line))
        self._close(title, "\n".join(f"- {line}" for _, line in sorted(chosen)), room)

    def add_text(self, title: str, text: str, share: float) -> None:
        room = int(self._room(share)) - self._count(f"## {title}\n")
        shown = by_sections(text, room, self._count) if text and room > 0 else ""
        self._close(title, shown, room - self._count(shown))

    def _room(self, share: float) -> float:
        return self._tokens * share + self._left_over

    def _close(self, title: str, body: str, left_over: float) -> None:
        self._left_over = left_over
        if body:
            self._sections.append(f"## {title}\n{body}")


def _requests(messages: Sequence[BaseMessage], count: Count, redact: Redact) -> list[tuple[int, str]]:
    """What the user said: the first request, then the newest back to the oldest."""
    said = [
        redact(text_of(message))
        for message in messages
        if is_human(message) and is_real_user_message(message)
    ]
    lines = [(place, _line(text, count)) for place, text in enumerate(said) if text.strip()]
    return [*lines[:1], *reversed(lines[1:])]


def _before(previous: str | None) -> str:
    """The previous summary, its headings turned into plain lines so that ours stay apart."""
    return _HEADING.sub("", (previous or "").removeprefix(EXTRACTIVE_MARK)).strip()


def _last(transcript: Transcript, count: Count) -> list[tuple[int, str]]:
    """The last messages, the newest first."""
    places = range(len(transcript) - 1, max(-1, len(transcript) - 1 - _LAST_MESSAGES), -1)
    entries = ((place, transcript.entry(place)) for place in places)
    return [(place, _line(f"{entry.header}: {entry.body}", count)) for place, entry in entries]


def _references(transcript: Transcript) -> list[tuple[int, str]]:
    """Paths, links and ids, those mentioned last first, each once."""
    found: dict[str, int] = {}
    for place in range(len(transcript)):
        for reference in _REFERENCE.findall(transcript.entry(place).body):
            found.pop(reference, None)
            found[reference] = place
    return [(place, reference) for reference, place in reversed(found.items())]


def _line(text: str, count: Count) -> str:
    """The beginning of a text on one line."""
    words = " ".join(_first_words(text))
    shown = head(words, _LINE_TOKENS, count)
    return words if shown == words else f"{shown.rstrip()} …"


def _first_words(text: str) -> Iterable[str]:
    return text[: _LINE_TOKENS * 20].split()
