"""The whole conversation of a thread: what stands in its state, and what compactions removed, each at its place."""

from __future__ import annotations

from collections.abc import Container, Iterable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

import orjson
from langchain_core.messages import BaseMessage

from app.agent.summary_message import conversation_of
from app.compaction.chain import Chain, chain_of
from app.compaction.roles import HIDDEN_FLAG
from app.compaction.timeline import Removal, Timeline, timeline
from app.errors import NotFound
from app.persistence.archive import ArchiveStore
from app.persistence.compactions import CompactionRecord, CompactionStore
from app.persistence.pins import PinStore
from app.persistence.threads import ThreadStore
from app.ports import Graphs
from app.serialization import dumps
from app.services.ids import made_at

_MARKER_FIELDS = (
    "compaction_id",
    "kind",
    "run_id",
    "model_name",
    "trigger",
    "extractive",
    "tokens_before",
    "tokens_after",
    "removed_message_count",
    "preserved_message_count",
    "created_at",
)


@dataclass(frozen=True, slots=True)
class PageRequest:
    """Which part of a conversation: the newest ``limit`` messages, those before ``before_seq``, or those around a
    message. Messages that people are not shown are left out unless ``include_hidden``."""

    limit: int
    before_seq: int | None = None
    around: str | None = None
    include_hidden: bool = False


@dataclass(frozen=True, slots=True)
class Conversation:
    """A conversation on the branch of one state. The message at ``places[n]`` has the ``seq`` n + 1."""

    live: Mapping[str | None, BaseMessage] = field(repr=False)
    places: Timeline = field(repr=False)
    chain: Chain
    removals: Mapping[str, Removal] = field(repr=False)

    def seqs(self) -> dict[str | None, int]:
        """The ``seq`` of each message by its id."""
        return self.places.seqs()


@dataclass(frozen=True, slots=True)
class _Entry:
    seq: int
    compaction_id: str | None
    message: dict[str, Any] = field(repr=False)
    archived: bool = False

    @property
    def hidden(self) -> bool:
        return bool((self.message.get("additional_kwargs") or {}).get(HIDDEN_FLAG))

    @property
    def created_at(self) -> datetime | None:
        return made_at(self.message.get("id"))

    def shown(self, runs: Mapping[datetime, str], pinned: Container[str]) -> dict[str, Any]:
        at = self.created_at
        return {
            "seq": self.seq,
            "message": self.message,
            "archived": self.archived,
            "compaction_id": self.compaction_id,
            "run_id": runs.get(at) if at else None,
            "created_at": at,
            "pinned": self.message.get("id") in pinned,
        }


class TimelineService:
    """The use cases behind ``GET /threads/{t}/messages``."""

    def __init__(
        self,
        threads: ThreadStore,
        records: CompactionStore,
        archive: ArchiveStore,
        pins: PinStore,
        graphs: Graphs,
    ) -> None:
        self._threads = threads
        self._pins = pins
        self._records = records
        self._archive = archive
        self._graphs = graphs

    async def conversation(self, thread_id: str, state: Mapping[str, Any]) -> Conversation:
        """The whole conversation that ``state``, one of the thread's, is the end of. Only ids are read."""
        messages, _, marker = conversation_of(state)
        links = await self._archive.links(thread_id) if marker else {}
        chain = chain_of(links, marker["compaction_id"] if marker else None)
        carriers = [made.carrier_id for made in reversed(chain.in_force)]
        known = await self._archive.removals(thread_id, list({*carriers, *chain.made})) if chain.made else []
        removals = {removal.compaction_id: removal for removal in known}
        return Conversation(
            live={message.id: message for message in messages},
            places=timeline([m.id for m in messages], (removals[c] for c in carriers if c in removals)),
            chain=chain,
            removals=removals,
        )

    async def page(self, owner: str, thread_id: str, wanted: PageRequest) -> dict[str, Any]:
        """One page, oldest message first, with the compactions that fall into it. Raises NotFound when there is no such
        thread, or no message ``around`` in it."""
        thread = await self._threads.get(thread_id, owner)
        if thread is None:
            raise NotFound(f"There is no thread {thread_id}")
        graph = self._graphs.for_state(thread.graph_name)
        head = await graph.aget_state({"configurable": {"thread_id": thread_id}})
        whole = await self.conversation(thread_id, head.values)
        end = _end(whole, wanted)
        entries = await self._entries(thread_id, whole, end, wanted)
        page = entries[-wanted.limit :]
        has_more = len(entries) > len(page)
        first = page[0].seq if has_more else 0
        pinned = await self._pins.ids(thread_id)
        moments = [entry.created_at for entry in page if entry.created_at]
        runs = await self._archive.runs_at(thread_id, moments) if moments else {}
        return {
            "data": [entry.shown(runs, pinned) for entry in page],
            "markers": await self._markers(thread_id, whole, first, end),
            "has_more": has_more,
            "next_before_seq": first if has_more else None,
            "total": len(whole.places),
        }

    async def _entries(
        self, thread_id: str, whole: Conversation, end: int, wanted: PageRequest
    ) -> list[_Entry]:
        """The newest entries before ``end`` that are to be shown; more than the limit where there are more."""
        found: list[_Entry] = []
        while end > 1 and len(found) <= wanted.limit:
            start = max(1, end - wanted.limit - 1)
            entries = await self._read(thread_id, whole, start, end)
            found = [e for e in entries if wanted.include_hidden or not e.hidden] + found
            end = start
        return found

    async def _read(self, thread_id: str, whole: Conversation, start: int, end: int) -> list[_Entry]:
        """The messages from ``start`` to before ``end``; those that were erased from the archive are left out."""
        places = whole.places[start - 1 : end - 1]
        archived = await self._archive.at(thread_id, places)
        made = {carried.carrier_id: carried.compaction_id for carried in whole.chain.in_force}
        entries = []
        for seq, place in enumerate(places, start):
            past = archived.get(place)
            if place.compaction_id is None:
                message = orjson.loads(dumps(whole.live[place.message_id]))
                entries.append(_Entry(seq, None, message))
            elif past is not None:
                entries.append(_Entry(seq, made[place.compaction_id], orjson.loads(past.text), archived=True))
        return entries

    async def _markers(
        self, thread_id: str, whole: Conversation, first: int, end: int
    ) -> list[dict[str, Any]]:
        """The compactions of the branch behind the messages from ``first`` to before ``end``, in their order."""
        # What happened before the page is out of the question, wherever it was.
        seqs = whole.places.seqs(max(first, 1)) if whole.chain.made else {}
        after = {made: _after(seqs, whole.removals.get(made)) for made in whole.chain.made}
        within = [made for made in whole.chain.made if first <= after[made] < end]
        records = await self._records.several(thread_id, within) if within else {}
        return [
            {"after_seq": after[made], **_marker(records[made], whole.chain)}
            for made in within
            if made in records
        ]


def _end(whole: Conversation, wanted: PageRequest) -> int:
    """The ``seq`` before which the page ends."""
    last = len(whole.places) + 1
    if wanted.around is not None:
        seq = whole.seqs().get(wanted.around)
        if seq is None:
            raise NotFound(f"There is no message {wanted.around} in this conversation")
        return min(last, seq + wanted.limit // 2 + 1)
    return last if wanted.before_seq is None else min(last, wanted.before_seq)


def _after(seqs: Mapping[str | None, int], removal: Removal | None) -> int:
    """Behind which message a compaction happened: the last that it saw."""
    seen: Iterable[str] = (removal.seen_ids or removal.removed_ids) if removal else ()
    return max(filter(None, map(seqs.get, seen)), default=0)


def _marker(record: CompactionRecord, chain: Chain) -> dict[str, Any]:
    """A compaction among the messages. What it is on this branch decides, not what it is elsewhere."""
    in_force = [made.compaction_id for made in chain.in_force]
    return {
        **{name: getattr(record, name) for name in _MARKER_FIELDS},
        "status": "committed" if record.compaction_id in in_force else "undone",
        "undoable": in_force[-1:] == [record.compaction_id],
        "redoable": list(chain.undone[-1:]) == [record.compaction_id],
    }
