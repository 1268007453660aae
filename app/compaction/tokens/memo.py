"""Remembering what things cost, so that a call costs what is new to it (rule B4)."""

from __future__ import annotations

import marshal
from collections import OrderedDict
from collections.abc import Callable, Hashable, Sequence
from typing import Any, Final
from weakref import ref

_MOST_FINGERPRINTS: Final = 65_536
# Version 2 writes no back references: equal values give equal bytes, whoever else refers to them.
_MARSHAL_VERSION: Final = 2

Parts = tuple[Any, ...]


class _Ref(ref[Any]):
    """A weak reference that knows under which key its object was remembered."""

    __slots__ = ("key",)
    key: int


class Memo:
    """The cost of objects, remembered twice.

    By object, as long as the object lives: inside a run the history is a new list of the same messages. By
    content, bounded in number: a history that is read again from a checkpoint is made of equal messages, not
    of the same. Objects count as values: one that is changed in place keeps its first cost, who changes one
    makes a new one.
    """

    def __init__(
        self, parts: Callable[[Any], tuple[Any, ...]], cost: Callable[[Any, tuple[Any, ...]], int]
    ) -> None:
        """``parts`` gives what the cost of an object depends on; ``cost`` gets the object and its parts."""
        self._parts = parts
        self._cost = cost
        self._by_object: dict[int, int] = {}
        self._refs: dict[int, _Ref] = {}
        self._by_content: OrderedDict[int, int] = OrderedDict()
        self._forget = _forgetter(self._by_object, self._refs)

    def of(self, thing: Any) -> int:
        """The cost of one object."""
        known = self._by_object.get(id(thing))
        if known is not None:
            return known
        cost = self._by_parts(thing, self._parts(thing))
        self._remember(thing, cost)
        return cost

    def total(self, things: Sequence[Any]) -> int:
        """The sum of the costs: a look-up made in C for what is known, the rest at the cost of what is new."""
        known = list(map(self._by_object.get, map(id, things)))
        try:
            return sum(known)  # type: ignore[arg-type]
        except TypeError:  # something is new, mostly at the end
            first = known.index(None)
        return sum(known[:first]) + sum(map(self.of, things[first:]))  # type: ignore[arg-type]

    def _by_parts(self, thing: Any, parts: Parts) -> int:
        key = _fingerprint(parts)
        if key is None:
            return self._cost(thing, parts)
        known = self._by_content.get(key)
        if known is None:
            known = self._by_content[key] = self._cost(thing, parts)
            if len(self._by_content) > _MOST_FINGERPRINTS:
                self._by_content.popitem(last=False)
        return known

    def _remember(self, thing: Any, cost: int) -> None:
        """An entry lives as long as its object: an address is used again only after the reference was
        cleared."""
        try:
            reference = _Ref(thing, self._forget)
        except TypeError:  # a dict or a list cannot be referred to weakly
            return
        reference.key = key = id(thing)
        self._refs[key] = reference
        self._by_object[key] = cost


def _forgetter(*memories: dict[int, Any]) -> Callable[[_Ref], None]:
    """What a dying object calls. It holds the dictionaries and not the memo, which may die first."""

    def forget(reference: _Ref) -> None:
        for memory in memories:
            memory.pop(reference.key, None)

    return forget


def _fingerprint(parts: Parts) -> int | None:
    """A number that stands for the content; None for content of unknown types, which is then not
    remembered."""
    try:
        return hash(parts)
    except TypeError:  # a list of blocks or of calls is among them
        pass
    try:
        return hash(tuple(map(_hashable, parts)))
    except ValueError:
        return None


def _hashable(part: Any) -> Hashable:
    return part if part is None or isinstance(part, str) else marshal.dumps(part, _MARSHAL_VERSION)
