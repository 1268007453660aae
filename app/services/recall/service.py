"""Recall: finding messages of a thread again, those that compactions removed and those that are still there."""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from langchain_core.messages import BaseMessage

from app.agent.summary_message import SeenConversation, conversation_of
from app.compaction.chain import chain_of
from app.compaction.reference import reference_of
from app.errors import InvalidInput, NotFound
from app.persistence.archive import ArchiveStore
from app.persistence.recall import Archived, Hits, Place, RecallStore
from app.ports import Past, PastFound
from app.services.recall.index import RecallIndexer, of_json, parts_of
from app.services.recall.ranking import Candidate, Ranked, Rarity, rank
from app.services.recall.snippet import snippet
from app.services.recall.text import Said, said_by, texts
from app.services.recall.words import Query, query_of

MAX_QUERY_CHARS = 1000
SNIPPET_CHARS = 300
# How many parts of messages are read to rank them, and how many of a query's terms may be spelt otherwise.
_MOST_READ = 60
_MOST_WITH_ALL = 30
_MOST_MISSING = 6
_SHORTEST_PIECE = 3


@dataclass(frozen=True, slots=True)
class Found:
    """A message that was found. ``message`` is the message object of a live one, the JSON text of an archived one."""

    said: Said
    snippet: str
    score: float
    archived: bool
    message: BaseMessage | str


class RecallService:
    """Searches one thread. Only what is on the branch of the given state is found: what its chain of compactions
    removed, and what it holds. A message that is both counts as live."""

    def __init__(self, store: RecallStore, archive: ArchiveStore, indexer: RecallIndexer) -> None:
        self._store = store
        self._archive = archive
        self._indexer = indexer

    async def search(self, thread_id: str, state: Mapping[str, Any], query: str, limit: int) -> PastFound:
        """For the agent: only what left its context. Raises InvalidInput."""
        wanted = checked_query(query, "query")
        complete = await self._indexer.catch_up(thread_id)
        seen = conversation_of(state)
        live = {message.id for message in seen.messages}
        found = await self._archived(thread_id, seen, wanted, live)
        ranked = rank(found.candidates, wanted, found.rarity, found.spellings)
        return PastFound(
            tuple(
                Past(each.candidate.said.reference, each.candidate.said.speaker, _piece(each, wanted))
                for each in ranked[:limit]
            ),
            complete,
        )

    async def read(self, thread_id: str, state: Mapping[str, Any], reference: str) -> Past:
        """A message by its reference or id, live or archived. Raises NotFound, and InvalidInput for several."""
        seen = conversation_of(state)
        live = {
            message.id: said_by(message)
            for message in seen.messages
            if message.id and reference in (message.id, reference_of(message.id))
        }
        await self._indexer.catch_up(thread_id)
        compactions = await self._in_force(thread_id, seen)
        rows = await self._store.referred(thread_id, reference, compactions) if compactions else []
        found = {row.message_id: said for row in rows if (said := of_json(row.message))} | live
        if len(found) > 1:
            raise InvalidInput(f"Several messages have the reference {reference}; read one by its id")
        if not found:
            raise NotFound(f"There is no earlier message {reference} in this conversation")
        (said,) = found.values()
        return Past(said.reference, said.speaker, said.text)

    async def find(
        self, thread_id: str, state: Mapping[str, Any], query: Query, limit: int
    ) -> tuple[list[Found], bool]:
        """For people: archived and live messages, the hidden ones left out; and whether all of them are indexed."""
        complete = await self._indexer.catch_up(thread_id)
        seen = conversation_of(state)
        messages = {message.id: message for message in seen.messages if message.id}
        found = await self._archived(thread_id, seen, query, messages.keys())
        live = await asyncio.to_thread(_live, list(messages.values()))
        rarity = _with_live(found.rarity, live, query, len(messages))
        shown = [each for each in (*found.candidates, *live) if not each.said.hidden]
        ranked = await asyncio.to_thread(rank, shown, query, rarity, found.spellings)
        return [
            Found(
                said=each.candidate.said,
                snippet=_piece(each, query),
                score=round(each.score, 3),
                archived=each.candidate.archived,
                message=found.json.get(each.candidate.order, "")
                if each.candidate.archived
                else messages[each.candidate.said.message_id],
            )
            for each in ranked[:limit]
        ], complete

    async def _archived(
        self, thread_id: str, seen: SeenConversation, query: Query, live: Collection[str | None]
    ) -> _FromArchive:
        compactions = await self._in_force(thread_id, seen)
        if not compactions:
            return _FromArchive([], Rarity({}, 0), {}, {})
        hits = await self._store.hits(thread_id, query.words, query.telling)
        missing = [t for t in query.terms if hits.by_term.get(t) == [] and len(t) >= _SHORTEST_PIECE][
            :_MOST_MISSING
        ]
        spellings = await self._store.spellings(thread_id, missing) if missing else {}
        spelt = sorted({word for words in spellings.values() for word in words})
        by_spelling = await self._store.by_term(thread_id, spelt) if spelt else {}
        rarity = Rarity({term: len(places) for term, places in hits.by_term.items()}, hits.total)
        places = _chosen(hits, by_spelling, rarity)
        positions = list({place.position for place in places})
        rows = await self._store.messages(thread_id, positions, compactions)
        candidates = _candidates(rows, places, live)
        return _FromArchive(candidates, rarity, spellings, {row.position: row.message for row in rows})

    async def _in_force(self, thread_id: str, seen: SeenConversation) -> list[str]:
        """The compactions whose removed messages are past on the branch of the state."""
        if not seen.marker:
            return []
        chain = chain_of(await self._archive.links(thread_id), seen.marker["compaction_id"])
        return list({name for made in chain.in_force for name in (made.compaction_id, made.carrier_id)})


@dataclass(frozen=True, slots=True)
class _FromArchive:
    candidates: list[Candidate]
    rarity: Rarity
    spellings: Mapping[str, Sequence[str]]
    json: Mapping[int, str]


def checked_query(text: str, where: str) -> Query:
    """Raises InvalidInput that begins with ``where``, for nothing to look for and for too much."""
    if len(text) > MAX_QUERY_CHARS:
        raise InvalidInput(f"{where}: has {len(text)} characters; at most {MAX_QUERY_CHARS}")
    query = query_of(text)
    if not query.terms:
        raise InvalidInput(f"{where}: there is no word in it to look for")
    return query


def _chosen(hits: Hits, by_spelling: Mapping[str, Sequence[Place]], rarity: Rarity) -> list[Place]:
    """The parts worth reading: some with all words, then those with the rarest terms, the newest first."""
    weights: dict[Place, float] = {}
    for term, places in (*hits.by_term.items(), *by_spelling.items()):
        for place in places:
            weights[place] = weights.get(place, 0.0) + rarity.of(term)
    by_weight = sorted(weights, key=lambda place: (weights[place], place.position), reverse=True)
    return list(dict.fromkeys([*hits.every[:_MOST_WITH_ALL], *by_weight]))[:_MOST_READ]


def _candidates(
    rows: Sequence[Archived], places: Sequence[Place], live: Collection[str | None]
) -> list[Candidate]:
    parts: dict[int, list[int]] = {}
    for place in places:
        parts.setdefault(place.position, []).append(place.part)
    found: list[Candidate] = []
    for row in rows:
        said = of_json(row.message) if row.message_id not in live else None
        if said:
            texts = list(parts_of(said.text))
            found += (
                Candidate(said, texts[part], row.position, archived=True)
                for part in parts[row.position]
                if part < len(texts)
            )
    return found


def _live(messages: Sequence[BaseMessage]) -> list[Candidate]:
    """Live messages are newer than all archived ones."""
    first = 2**40
    return [
        Candidate(said, part, first + number, archived=False)
        for number, said in enumerate(texts(messages))
        for part in parts_of(said.text)
    ]


def _with_live(rarity: Rarity, live: Sequence[Candidate], query: Query, messages: int) -> Rarity:
    lowered = [candidate.text.lower() for candidate in live]
    counts = {
        term: rarity.counts.get(term, 0) + sum(term in text for text in lowered) for term in query.terms
    }
    return Rarity(counts, rarity.total + messages)


def _piece(each: Ranked, query: Query) -> str:
    telling = sorted(query.terms, key=lambda term: (term in query.names, len(term)), reverse=True)
    return snippet(each.candidate.text, query.text, telling, SNIPPET_CHARS)
