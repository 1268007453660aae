"""How quickly messages that left a long thread are found again, and what archiving them costs a compaction."""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from statistics import median, quantiles
from typing import Any
from uuid import uuid4

from langchain_core.messages import AIMessage, BaseMessage

from app.agent.state import CompactionMarker
from app.bench.histories import Conversation
from app.bench.models import BenchModel, OneModel
from app.bench.rig import OWNER, assemble
from app.bench.timing import no_collection
from app.config import Settings, SummarizationSettings
from app.config.agents import DEFAULT_AGENT
from app.persistence.archive import ArchiveStore
from app.persistence.compactions import CompactionRecord, CompactionStore, InTransaction
from app.persistence.database import Database, Pool
from app.persistence.pins import PinStore
from app.persistence.recall import RecallStore
from app.ports import WRITER_NODE
from app.services.compaction.service import CompactRequest
from app.services.recall.index import RecallIndexer
from app.services.recall.search import SearchService
from app.services.recall.service import RecallService
from app.services.threads.timeline import TimelineService

_PER_COMPACTION = 100
_LIVE = 10
_RESULTS = 8
_PATIENCE_S = 3600.0
# Of the compacted threads, that many tell what indexing takes.
_INDEXED = 3


@dataclass(frozen=True, slots=True)
class RecallScope:
    """A thread with so many archived ``messages``, ``others`` with as many as ``messages`` together, ``searches`` of
    each kind; compactions of threads of these ``sizes``, each measured ``rounds`` times."""

    messages: int
    others: int
    searches: int
    sizes: tuple[int, ...]
    rounds: int


THOROUGH = RecallScope(50_000, 10, 60, (400, 2_000), 15)
QUICK = RecallScope(2_000, 4, 10, (100, 400), 3)


@dataclass(frozen=True, slots=True)
class SearchFigures:
    """Searches of one kind in ms: as the agent's tool makes them, and as people do, with the place of each message."""

    kind: str
    messages: int
    searches: int
    p50_ms: float
    p95_ms: float
    people_p95_ms: float


@dataclass(frozen=True, slots=True)
class ArchiveFigures:
    """A compaction with a model that answers at once, in ms from the call to its answer: as it is, and where nothing
    but its record is written before the state is. ``adds_ms`` is how much longer the first half of the commit takes,
    which all that is done for the archive is part of; the two whole times tell the same less exactly. What comes later,
    sorting in and indexing, is given per message."""

    messages: int
    compaction_ms: float
    without_ms: float
    adds_ms: float
    later_ms_per_message: float

    @property
    def share(self) -> float:
        """What the archive adds / a compaction without one."""
        return self.adds_ms / self.without_ms


@dataclass(frozen=True, slots=True)
class RecallFigures:
    searches: tuple[SearchFigures, ...]
    archives: tuple[ArchiveFigures, ...]


async def measure_recall(
    settings: Settings, database: Database, scope: RecallScope, say: Callable[[str], None]
) -> RecallFigures:
    """Both measurements, on threads of their own in ``database``."""
    bench = _Bench(settings, database)
    archives = []
    for size in scope.sizes:
        say(f"compactions of {size} messages, with an archive")
        archives.append(await bench.archive(size, scope.rounds))
    say(f"filling archives with {2 * scope.messages} messages")
    for number in range(scope.others):
        await bench.fill(scope.messages // scope.others, seed=100 + number)
    thread_id = await bench.fill(scope.messages, seed=1)
    say(f"searches in {scope.messages} archived messages")
    return RecallFigures(
        tuple([await bench.searches(thread_id, kind, scope) for kind in _QUERIES]), tuple(archives)
    )


class _Timed(CompactionStore):
    """Notes how long each first half of a commit takes; those without an archive write the record alone."""

    def __init__(self, pool: Pool, *, archives: bool) -> None:
        super().__init__(pool)
        self._archives = archives
        self.took_ms: list[float] = []

    async def begin(
        self,
        record: CompactionRecord,
        removed: Sequence[BaseMessage],
        seen_ids: Sequence[str | None],
        waived_pins: frozenset[str] = frozenset(),
        first: InTransaction | None = None,
    ) -> None:
        noted = (removed, seen_ids) if self._archives else ((), ())
        self.took_ms.append(await _ms(super().begin(record, *noted, waived_pins, first)))


class _Variant:
    """Compactions with an archive or without one, and how long they took."""

    def __init__(self, settings: Settings, database: Database, *, archives: bool) -> None:
        model = BenchModel()
        self.store = _Timed(database.pool, archives=archives)
        self.rig = assemble(settings, database.pool, OneModel(model), [], model, self.store)
        self.took_ms: list[float] = []

    async def compact(self, thread_id: str) -> None:
        with no_collection():
            self.took_ms.append(await _ms(self.rig.compactions.compact(OWNER, thread_id, CompactRequest())))

    def medians(self, rounds: int) -> tuple[float, float]:
        """Of the last rounds: the whole compaction, and the first half of its commit."""
        return median(self.took_ms[-rounds:]), median(self.store.took_ms[-rounds:])


class _Bench:
    def __init__(self, settings: Settings, database: Database) -> None:
        settings = replace(settings, agents=(DEFAULT_AGENT,), summarization=SummarizationSettings())
        self._whole, self._bare = (
            _Variant(settings, database, archives=archives) for archives in (True, False)
        )
        self._records, self._rig = CompactionStore(database.pool), self._whole.rig
        archive, index = ArchiveStore(database.pool), RecallStore(database.pool)
        self._indexer = RecallIndexer(index)
        self._recall = RecallService(index, archive, self._indexer)
        timelines = TimelineService(
            self._rig.threads, self._records, archive, PinStore(database.pool), self._rig.graphs
        )
        self._people = SearchService(self._rig.threads, self._rig.graphs, self._recall, timelines)

    async def archive(self, size: int, rounds: int) -> ArchiveFigures:
        """Medians over so many rounds: in each, two threads of the same messages, one compacted with an archive and
        one without; each is the first in every other round."""
        later = []
        for seed in range(rounds):
            for variant in (self._whole, self._bare)[:: -1 if seed % 2 else 1]:
                thread_id = await self._thread()
                await self._write(thread_id, {"messages": Conversation(seed).take(size)})
                await variant.compact(thread_id)
                if variant is self._whole and seed < _INDEXED:
                    later.append(await _ms(self._indexer.catch_up(thread_id, _PATIENCE_S)) / size)
        (whole, half), (bare, least) = self._whole.medians(rounds), self._bare.medians(rounds)
        return ArchiveFigures(size, whole, bare, half - least, median(later))

    async def fill(self, messages: int, seed: int) -> str:
        """A thread with so many archived messages, and a few live ones."""
        thread_id = await self._thread()
        previous: str | None = None
        conversation = Conversation(seed)
        planted = iter(_planted(messages))
        for _ in range(messages // _PER_COMPACTION):
            said = [*conversation.take(_PER_COMPACTION - 1), next(planted)]
            record = CompactionRecord(
                str(uuid4()), thread_id, None, "manual", "committing", previous_id=previous
            )
            await self._records.begin(record, said, [message.id for message in said])
            previous = record.compaction_id
        await self._indexer.catch_up(thread_id, _PATIENCE_S)
        marker = CompactionMarker(
            compaction_id=previous or "", after_message_id=None, run_id=None, earlier=[]
        )
        await self._write(thread_id, {"messages": conversation.take(_LIVE), "compaction": marker})
        return thread_id

    async def searches(self, thread_id: str, kind: str, scope: RecallScope) -> SearchFigures:
        graph = self._rig.graphs.for_state(DEFAULT_AGENT.name)
        state = (await graph.aget_state({"configurable": {"thread_id": thread_id}})).values
        agent, people = [], []
        for number in range(scope.searches):
            query = _QUERIES[kind](number * 17 % (scope.messages // _PER_COMPACTION))
            agent.append(await _ms(self._recall.search(thread_id, state, query, _RESULTS)))
            people.append(await _ms(self._people.search(OWNER, thread_id, query, _RESULTS)))
        return SearchFigures(kind, scope.messages, scope.searches, median(agent), _p95(agent), _p95(people))

    async def _thread(self) -> str:
        thread_id = str(uuid4())
        await self._rig.threads.create(thread_id, OWNER, {"graph_id": DEFAULT_AGENT.name})
        return thread_id

    async def _write(self, thread_id: str, values: dict[str, Any]) -> None:
        writer = self._rig.graphs.writer(DEFAULT_AGENT.name)
        await writer.aupdate_state({"configurable": {"thread_id": thread_id}}, values, as_node=WRITER_NODE)


def _planted(messages: int) -> Iterator[BaseMessage]:
    """One message of each compaction says what the searches look for."""
    for number in range(messages // _PER_COMPACTION):
        yield AIMessage(
            f"The limit quota_{number}_max of 第{number}号仓库 is {number * 7919}.", id=f"planted-{number}"
        )


# A name that one message has, a sentence with words that thousands have, Chinese, and a name written wrongly.
_QUERIES: dict[str, Callable[[int], str]] = {
    "name": lambda number: f"quota_{number}_max",
    "words": lambda number: f"the slow handler of the session keeps record quota {number * 7919}",
    "common words": lambda number: ("remote cache report", "stable thread index")[number % 2],
    "Chinese": lambda number: f"会议记录 {number}号仓库",
    "misspelt": lambda number: f"qouta_{number}_max",
}


async def _ms(work: Awaitable[object]) -> float:
    start = time.perf_counter()
    await work
    return (time.perf_counter() - start) * 1000


def _p95(times: Sequence[float]) -> float:
    return quantiles(times, n=20)[-1]
