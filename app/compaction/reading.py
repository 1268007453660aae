"""What each summary call reads: every removed message, oldest first, within the room of the calls (rule D1)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from langchain_core.messages import BaseMessage

from app.compaction.excerpt import Excerpt
from app.compaction.render import Transcript
from app.compaction.shorten import Count, fair_cap
from app.compaction.types import Redact, unchanged

# A shortened message takes at least this much beside its id: number, speaker, the note, a few words.
_MIN_SHARE = 40
# Below so many times that, most of a share would be the note on what is omitted: neighbours share one note, in an
# entry of so many times that.
_ALONE = 2
_TOGETHER = 4
# A message is cut at the end of a call only when the part before the cut is worth reading.
_MIN_PART = 48
# Calls are not filled to the last token, so shares are computed for a little less.
_FILLED = 0.95
_SHRINK = 0.9
# The part of a call that may stay empty to read a shortened message in one piece.
_SMALL = 0.1


@dataclass(frozen=True, slots=True)
class Position:
    """How far a reader has come: the next message, what is left of one that was begun, and the characters
    that were left out on the way."""

    index: int = 0
    begun: Excerpt | None = None
    lost: int = 0


@dataclass(frozen=True, slots=True)
class Portion:
    """What one call reads ("" when not a word fits), and where the next one goes on."""

    text: str
    after: Position


@dataclass(frozen=True, slots=True)
class Room:
    """Tokens for messages in this call, the calls that may follow, and the most that each of those may read.

    How much the later ones have depends on summaries that are not written yet; the best guess is ``now``.
    """

    now: int
    calls_after: int
    most_after: int


@dataclass(frozen=True, slots=True)
class _Shares:
    """How much of the room an entry gets (None: all it needs), and how many messages make one entry."""

    cap: int | None
    group: int = 1


class Reader:
    """Divides the removed messages into portions. Measured once, shared by all candidates, without state."""

    def __init__(self, messages: Sequence[BaseMessage], count: Count, redact: Redact = unchanged) -> None:
        """``count`` gives the tokens of a text, ``redact`` takes the secrets out of one."""
        self._transcript = Transcript(messages, redact)
        self._count = count
        self._tokens: list[int] = []
        self._chars: list[int] = []
        longest = ""
        for index in range(len(messages)):
            entry = self._transcript.entry(index)
            self._tokens.append(count(entry.text))
            self._chars.append(len(entry.body))
            longest = max(longest, entry.reference, key=len)
        self._min_share = _MIN_SHARE + 2 * count(longest)

    @property
    def is_empty(self) -> bool:
        """Whether the removed messages hold no text at all."""
        return not any(self._chars)

    def finished(self, at: Position) -> bool:
        """Whether everything was gone through."""
        return at.begun is None and at.index >= len(self._tokens)

    def coverage(self, at: Position) -> float:
        """Characters read / characters removed at the end of a reading, 0..1."""
        return max(0.0, 1 - at.lost / max(1, sum(self._chars)))

    def portion(self, at: Position, room: Room) -> Portion:
        """The next portion. Messages are shortened only when they do not fit into this and the later calls;
        the last call goes through all that is left. Source: rule D1."""
        sizes = self._sizes(at)
        fits = sum(sizes) <= room.now + room.calls_after * room.most_after
        total = int(room.now * (1 + room.calls_after * _FILLED))
        portion = self._fill(at, room, _Shares(None) if fits else self._shares(sizes, total))
        while not room.calls_after and not self.finished(portion.after) and total > 1:
            total = min(total - 1, int(total * _SHRINK))
            portion = self._fill(at, room, self._shares(sizes, total))
        return portion if room.calls_after or self.finished(portion.after) else self._nothing(at)

    def _nothing(self, at: Position) -> Portion:
        begun = len(at.begun.start) + len(at.begun.end) if at.begun else 0
        return Portion("", Position(len(self._chars), None, at.lost + begun + sum(self._chars[at.index :])))

    def _sizes(self, at: Position) -> list[int]:
        begun = [self._count(at.begun.text)] if at.begun else []
        return begun + self._tokens[at.index :]

    def _shares(self, sizes: Sequence[int], total: int) -> _Shares:
        """Shares of ``total`` tokens. Where they would be too small to say anything, neighbours share one."""
        cap = fair_cap(sizes, total)
        if cap >= _ALONE * self._min_share:
            return _Shares(cap)
        entries = max(1, total // (_TOGETHER * self._min_share))
        return _Shares(total // entries, -(-len(sizes) // entries))

    def _fill(self, at: Position, room: Room, shares: _Shares) -> Portion:
        parts: list[str] = []
        left = room.now
        while not self.finished(at):
            excerpt, after = self._next(at, shares)
            used = self._count(f"{excerpt.text}\n")
            if used > left:
                last, at = self._at_the_end(excerpt, at, after, left, room, bool(parts))
                return Portion("\n".join(parts + last), at)
            parts.append(excerpt.text)
            left -= used
            at = after
        return Portion("\n".join(parts), at)

    def _next(self, at: Position, shares: _Shares) -> tuple[Excerpt, Position]:
        """The next entry within its share, and the position behind it."""
        if at.begun:
            whole, index = at.begun, at.index
        elif shares.cap is not None and shares.group > 1:
            return self._gathered(at, shares.cap, shares.group)
        else:
            index = at.index + 1
            whole = Excerpt.whole(self._transcript.entry(at.index))
        excerpt = whole if shares.cap is None else whole.shortened(shares.cap, self._count)
        return excerpt, Position(index, None, at.lost + excerpt.omitted - whole.omitted)

    def _gathered(self, at: Position, cap: int, group: int) -> tuple[Excerpt, Position]:
        last = min(at.index + group, len(self._tokens))
        entries = [self._transcript.entry(index) for index in range(at.index, last)]
        excerpt = Excerpt.gathered(entries, at.index + 1, cap, self._count)
        return excerpt, Position(last, None, at.lost + excerpt.omitted)

    def _at_the_end(
        self, excerpt: Excerpt, at: Position, after: Position, left: int, room: Room, filled: bool
    ) -> tuple[list[str], Position]:
        """What becomes of an entry that does not fit into what is left of a call: the next call's, or cut."""
        if not room.calls_after or (filled and self._can_wait(excerpt, at, room)):
            return [], at
        parted = excerpt.split(left, self._count) if not filled or left >= _MIN_PART else None
        if parted:
            first, rest = parted
            return [first.text], Position(after.index, rest, after.lost)
        if filled:
            return [], at
        return [], Position(after.index, None, after.lost + len(excerpt.start) + len(excerpt.end))

    def _can_wait(self, excerpt: Excerpt, at: Position, room: Room) -> bool:
        """Whether the later calls have the room to read an entry in one piece."""
        if excerpt.omitted:
            return self._count(excerpt.text) <= room.now * _SMALL
        fits = self._count(excerpt.text) <= room.now
        return fits and sum(self._sizes(at)) <= room.now * room.calls_after * _FILLED
