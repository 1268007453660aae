"""Keeps the index of archived messages up to date: after compactions, and before a search that cannot wait."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterator, Sequence
from itertools import islice

import orjson

from app.persistence.cancellation import cancelled
from app.persistence.outage import is_outage, one_line
from app.persistence.recall import RecallStore, Unindexed, Words, quoted
from app.services.recall.text import Said, is_found, said
from app.services.recall.words import words_in

log = logging.getLogger(__name__)

PERIOD_S = 2.0
_PATIENCE_S = 5.0
_THREADS_AT_ONCE = 20
# A part stays far below the megabyte that a tsvector may have, and its places below 16,384.
PART_CHARS = 40_000
_OVERLAP = 200
_LAST_PLACE = 16_383
_PLACES_PER_WORD = 16
# Shorter ones would hold nearly every piece that is looked for. Long data has more words than anybody misspells.
_SHORTEST_TERM = 4
_MOST_TERMS = 1000
_PARTS_WITH_TERMS = 10


class RecallIndexer:
    """Indexes what waits. Every process that works does it every ``period_s`` seconds."""

    def __init__(self, store: RecallStore, period_s: float = PERIOD_S) -> None:
        self._store = store
        self._period_s = period_s
        self._task: asyncio.Task[None] | None = None

    def start(self) -> None:
        self._task = asyncio.create_task(self._for_ever(), name="recall index")

    async def stop(self) -> None:
        if self._task:
            await cancelled(self._task)

    async def catch_up(self, thread_id: str, patience_s: float = _PATIENCE_S) -> bool:
        """Sort in and index what waits of a thread, the newest first. Returns whether it is done, after about so many
        seconds of indexing."""
        await self._store.sort_in(thread_id)
        deadline = asyncio.get_running_loop().time() + patience_s
        while await self._store.is_behind(thread_id):
            if asyncio.get_running_loop().time() > deadline:
                return False
            await self._store.index_next(thread_id, words_of)
        return True

    async def _for_ever(self) -> None:
        while True:
            await asyncio.sleep(self._period_s)
            try:
                behind = await self._store.threads_behind(_THREADS_AT_ONCE)
            except Exception as error:
                # Whatever stopped it, the next round is needed.
                shown = not is_outage(error)
                log.warning("cannot index archived messages: %s", one_line(error), exc_info=shown)
                continue
            for thread_id in behind:
                await self._try(thread_id)

    async def _try(self, thread_id: str) -> None:
        try:
            await self.catch_up(thread_id)
        except Exception as error:
            # The other threads are not to wait for one that cannot be indexed.
            shown = not is_outage(error)
            log.warning(
                "cannot index archived messages of %s: %s", thread_id, one_line(error), exc_info=shown
            )


def words_of(message: Unindexed) -> Sequence[Words]:
    """The index entries of an archived message, one for each part; none where there is nothing to be found."""
    said_there = of_json(message.message)
    if said_there is None or not is_found(said_there):
        return ()
    return [
        Words(message, number, said_there.reference, *_vector(part, number < _PARTS_WITH_TERMS))
        for number, part in enumerate(parts_of(said_there.text))
    ]


def of_json(text: str) -> Said | None:
    """A message from its JSON in the archive; None when it is none."""
    try:
        fields = orjson.loads(text)
    except orjson.JSONDecodeError:
        return None
    return said(fields) if isinstance(fields, dict) else None


def parts_of(text: str) -> Iterator[str]:
    """A text in parts of ``PART_CHARS`` that overlap, so that no word is torn in both."""
    start = 0
    while True:
        yield text[start : start + PART_CHARS]
        if start + PART_CHARS >= len(text):
            return
        start += PART_CHARS - _OVERLAP


def _vector(text: str, with_terms: bool) -> tuple[str, Sequence[str]]:
    places: dict[str, list[int]] = {}
    for word, place in words_in(text):
        known = places.setdefault(word, [])
        if len(known) < _PLACES_PER_WORD and known[-1:] != [min(place, _LAST_PLACE)]:
            known.append(min(place, _LAST_PLACE))
    vector = " ".join(f"{quoted(word)}:{','.join(map(str, found))}" for word, found in places.items())
    terms = (word for word in places if len(word) >= _SHORTEST_TERM) if with_terms else ()
    return vector, list(islice(terms, _MOST_TERMS))
