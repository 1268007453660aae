"""The timeline: the ids of a whole conversation in their true order, removed messages at the places they had.

Pure, and on ids alone: texts are loaded for the part that somebody looks at.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import count
from typing import NamedTuple, overload


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


class Timeline(Sequence[Place]):
    """The places of a conversation in their order. A long one has many, of which few are looked at: they are made when
    they are."""

    def __init__(self, message_ids: Sequence[str | None], removed_by: Sequence[str | None]) -> None:
        self._message_ids = message_ids
        self._removed_by = removed_by

    def __len__(self) -> int:
        return len(self._message_ids)

    @overload
    def __getitem__(self, index: int) -> Place: ...
    @overload
    def __getitem__(self, index: slice) -> Timeline: ...
    def __getitem__(self, index: int | slice) -> Place | Timeline:
        if isinstance(index, slice):
            return Timeline(self._message_ids[index], self._removed_by[index])
        return Place(self._message_ids[index], self._removed_by[index])

    def __iter__(self) -> Iterator[Place]:
        return map(Place, self._message_ids, self._removed_by)

    def seqs(self, first: int = 1) -> dict[str | None, int]:
        """The number of each message from the one with the number ``first`` on, counted from 1, by its id."""
        return dict(zip(self._message_ids[first - 1 :], count(first), strict=False))


def timeline(live_ids: Sequence[str | None], removals: Iterable[Removal]) -> Timeline:
    """The conversation whose state holds ``live_ids``. ``removals`` are the compactions in force, newest first.

    A removed message stands before the first message that followed it then, was kept and is still there; where none is,
    behind the last one that stood before it. An id that is there already stays where it is: that is the newer version.
    """
    known = list(removals)
    return continued(live_ids, known) or merged(live_ids, known)


def continued(live_ids: Sequence[str | None], removals: Sequence[Removal]) -> Timeline | None:
    """The conversation where nothing ever happened to it but compactions and new messages behind the others, which is
    the rule: what each compaction saw, without what the one before had seen. None where something else did.

    Takes a tenth of the time of ``merged``, and finds the same.
    """
    ids: list[str | None] = []
    removed_by: list[str | None] = []
    kept: dict[str, int] = {}
    for removal in reversed(removals):
        seen, removed = removal.seen_ids, set(removal.removed_ids)
        if not seen or [*seen[: len(kept)]] != [*kept]:
            return None
        offset = len(ids) - len(kept)
        ids += seen[len(kept) :]
        removed_by += [removal.compaction_id] * (len(seen) - len(kept))
        for place in kept.values():
            removed_by[place] = removal.compaction_id
        kept = {id: kept.get(id, offset + index) for index, id in enumerate(seen) if id not in removed}
        for place in kept.values():
            removed_by[place] = None
    if [*live_ids[: len(kept)]] != [*kept]:
        return None
    ids += live_ids[len(kept) :]
    removed_by += [None] * (len(live_ids) - len(kept))
    return Timeline(ids, removed_by) if len(set(ids)) == len(ids) else None


def merged(live_ids: Sequence[str | None], removals: Iterable[Removal]) -> Timeline:
    """The conversation whatever happened to it: deletions, imports in its midst, messages that were said again."""
    places = _Places(live_ids)
    for removal in removals:
        places.bring_back(removal)
    return places.in_order()


class _Places:
    """A doubly linked list; places are numbered as they are added, 0 is the start and the end."""

    def __init__(self, live_ids: Sequence[str | None]) -> None:
        last = len(live_ids)
        self._ids = [None, *live_ids]
        self._removed_by: list[str | None] = [None] * (last + 1)
        self._next = [*range(1, last + 1), 0]
        self._previous = [last, *range(last)]
        self._at = {id: number for number, id in enumerate(live_ids, 1) if id is not None}

    def in_order(self) -> Timeline:
        order, number = [], self._next[0]
        while number:
            order.append(number)
            number = self._next[number]
        return Timeline([self._ids[n] for n in order], [self._removed_by[n] for n in order])

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
