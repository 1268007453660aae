"""What a draft of a compaction covers, whether a later history still is that, and its division then."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Literal

from langchain_core.messages import BaseMessage

from app.compaction.partition import Partition
from app.compaction.types import Compaction

Fate = Literal["removed", "kept", "dropped"]
Digest = Callable[[BaseMessage], str]
_NAMED = 5


@dataclass(frozen=True, slots=True)
class Cover:
    """The messages that a compaction was made from, in their order: ids, digests of their content, and what becomes
    of each. ``waived_pins`` as in the compaction."""

    ids: tuple[str, ...]
    digests: tuple[str, ...]
    fates: tuple[Fate, ...]
    waived_pins: frozenset[str] = frozenset()


def cover_of(messages: Sequence[BaseMessage], compaction: Compaction, digest: Digest) -> Cover:
    """``messages`` is the history that the compaction was made from."""
    fates: dict[str, Fate] = {message.id or "": "kept" for message in compaction.kept}
    fates.update((message.id or "", "removed") for message in compaction.removed)
    fates.update((message.id or "", "dropped") for message in compaction.dropped)
    return Cover(
        ids=tuple(message.id or "" for message in messages),
        digests=tuple(digest(message) for message in messages),
        fates=tuple(fates[message.id or ""] for message in messages),
        waived_pins=compaction.waived_pins,
    )


def changes(cover: Cover, messages: Sequence[BaseMessage], digest: Digest) -> list[str]:
    """In words what of the covered messages is not as it was; empty when they stand unchanged at the beginning of
    ``messages``. What came behind them is no change."""
    now = {message.id: message for message in messages}
    gone = [id for id in cover.ids if id not in now]
    edited = [
        id
        for id, known in zip(cover.ids, cover.digests, strict=True)
        if id in now and digest(now[id]) != known
    ]
    found = [
        *([f"{_named(gone)} no longer there"] if gone else ()),
        *([f"{_named(edited)} changed"] if edited else ()),
    ]
    if not found and _is_displaced(cover, messages):
        found.append("messages were put before or between those it covers")
    return found


def divided(cover: Cover, messages: Sequence[BaseMessage]) -> Partition:
    """The division of a history that begins with the covered messages: what came since is kept."""
    parts: dict[Fate, list[BaseMessage]] = {"removed": [], "kept": [], "dropped": []}
    why = {}
    since: list[Fate] = ["kept"] * (len(messages) - len(cover.fates))
    for message, fate in zip(messages, [*cover.fates, *since], strict=True):
        parts[fate].append(message)
        why[message.id or ""] = fate
    return Partition(
        tuple(parts["removed"]), tuple(parts["kept"]), tuple(parts["dropped"]), why, cover.waived_pins
    )


def covered(cover: Cover, messages: Sequence[BaseMessage], digest: Digest) -> Iterator[BaseMessage]:
    """Those of ``messages`` that the draft would take away, as far as they are what it covers."""
    gone = {
        (id, known)
        for id, known, fate in zip(cover.ids, cover.digests, cover.fates, strict=True)
        if fate != "kept"
    }
    ids = {id for id, _ in gone}
    return (m for m in messages if m.id in ids and (m.id, digest(m)) in gone)


def _is_displaced(cover: Cover, messages: Sequence[BaseMessage]) -> bool:
    return tuple(message.id for message in messages[: len(cover.ids)]) != cover.ids


def _named(ids: Sequence[str]) -> str:
    shown = ", ".join(map(repr, ids[:_NAMED]))
    more = f" and {len(ids) - _NAMED} more" if len(ids) > _NAMED else ""
    return f"message {shown} is" if len(ids) == 1 else f"messages {shown}{more} are"
