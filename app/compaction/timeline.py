"""The timeline: the ids of a whole conversation in their true order, removed messages at the places they had.

Pure, and on ids alone: texts are loaded for the part that somebody looks at.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple


@dataclass(frozen=True, slots=True)
class Removal:
    """What a compaction took out of the state. ``seen_ids`` are the ids of all messages that stood there, in their
    order; empty where nobody noted them."""

    compaction_id: str
    removed_ids: Sequence[str] = field(repr=False)
    seen_ids: Sequence[str] = field(repr=False, default=())


class Place(NamedTuple):
    """A message of the conversation. ``compaction_id`` is the compaction that removed it, None while it is live."""

    message_id: str | None
    compaction_id: str | None


def timeline(live_ids: Sequence[str | None], removals: Iterable[Removal]) -> list[Place]:
    """The conversation whose state holds ``live_ids``. ``removals`` are the compactions in force, newest first.

    A removed message stands before the first message that followed it then, was kept and is still there; where none is,
    behind the last one that stood before it. An id that is there already stays where it is: that is the newer version.
    """
    places = _Places(live_ids)
    for removal in removals:
        places.bring_back(removal)
    return list(places)


class _Places:
    """A doubly linked list; places are numbered as they are added, 0 is the start and the end."""

    def __init__(self, live_ids: Sequence[str | None]) -> None:
        last = len(live_ids)
        self._ids = [None, *live_ids]
        self._removed_by: list[str | None] = [None] * (last + 1)
        self._next = [*range(1, last + 1), 0]
        self._previous = [last, *range(last)]
        self._at = {id: number for number, id in enumerate(live_ids, 1) if id is not None}

    def __iter__(self) -> Iterator[Place]:
        number = self._next[0]
        while number:
            yield Place(self._ids[number], self._removed_by[number])
            number = self._next[number]

    def bring_back(self, removal: Removal) -> None:
        # Behind what stands last of all that was seen, then before what follows.
        order = removal.seen_ids or removal.removed_ids
        removed = set(removal.removed_ids)
        # A removed message that is there again was said again, later: it tells no place of then.
        kept = {id: self._at[id] for id in order if id in self._at and id not in removed}
        end = next((i for i in range(len(order), 0, -1) if order[i - 1] in kept), 0)
        following = self._next[kept[order[end - 1]]] if end else self._next[0]
        for index in range(len(order) - 1, -1, -1):
            message_id = order[index]
            if message_id in kept:
                following = kept[message_id]
            elif message_id in removed and message_id not in self._at:
                following = self._insert_before(following, message_id, removal.compaction_id)

    def _insert_before(self, following: int, message_id: str, compaction_id: str) -> int:
        number, before = len(self._ids), self._previous[following]
        self._ids.append(message_id)
        self._removed_by.append(compaction_id)
        self._next.append(following)
        self._previous.append(before)
        self._next[before] = self._previous[following] = number
        self._at[message_id] = number
        return number
