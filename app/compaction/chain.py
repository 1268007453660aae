"""The chain: which compactions the marker of a state stands on, and which of them are in force there.

Every compaction, undo and redo knows the one whose marker stood in the state before it. So the marker of a state tells
of its own branch: a fork to an earlier checkpoint, a run that is rolled back and an undo need no special case.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Link:
    """A record as a part of chains. ``target_id`` is the compaction that an undo takes back or a redo repeats."""

    compaction_id: str
    kind: str
    previous_id: str | None = None
    target_id: str | None = None


@dataclass(frozen=True, slots=True)
class InForce:
    """A compaction whose removed messages are not in the state. ``carrier_id`` is the record of its newest commit: its
    own, or that of the redo that repeated it."""

    compaction_id: str
    carrier_id: str


@dataclass(frozen=True, slots=True)
class Chain:
    """``in_force`` and ``undone`` are oldest first: the last of either is what can be undone or redone next. ``made``
    are all compactions of the branch, taken back or not, oldest first."""

    made: tuple[str, ...] = ()
    in_force: tuple[InForce, ...] = ()
    undone: tuple[str, ...] = ()


def chain_of(links: Mapping[str, Link], marker_id: str | None) -> Chain:
    """The chain that ends with the record ``marker_id``, which stands in the state. ``links`` are the records of the
    conversation by id; where one is missing the chain begins."""
    made: list[str] = []
    in_force: list[InForce] = []
    undone: list[str] = []
    for link in reversed(list(_back(links, marker_id))):
        match link.kind, link.target_id:
            case "undo", str():
                undone += [in_force.pop().compaction_id] if in_force else []
            case "redo", str(target):
                undone = undone[:-1]
                in_force.append(InForce(target, link.compaction_id))
            case _:
                # What was taken back cannot come again on top of something else.
                undone = []
                made.append(link.compaction_id)
                in_force.append(InForce(link.compaction_id, link.compaction_id))
    return Chain(tuple(made), tuple(in_force), tuple(undone))


def _back(links: Mapping[str, Link], marker_id: str | None) -> Iterator[Link]:
    seen: set[str] = set()
    while marker_id is not None and marker_id in links and marker_id not in seen:
        seen.add(marker_id)
        yield links[marker_id]
        marker_id = links[marker_id].previous_id
