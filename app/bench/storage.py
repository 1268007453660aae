"""What a compaction changes for the database and for the turns of a thread after it."""

from __future__ import annotations

import json
import random
import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import count
from statistics import median
from uuid import uuid4

from langchain_core.messages import HumanMessage

from app.agent.tools import Workspaces, file_tools
from app.bench.histories import prose
from app.bench.rig import OWNER, Rig, assemble
from app.chat_models.demo import DemoChatModel
from app.chat_models.registry import ChatModelRegistry
from app.config import ModelSettings, Settings, SummarizationSettings
from app.config.agents import DEFAULT_AGENT
from app.config.settings import CheckpointMode
from app.persistence.database import Database
from app.persistence.sizes import StoredBytes, stored_bytes
from app.services.compaction.manual import CompactRequest

MODES: tuple[CheckpointMode, ...] = ("delta", "full")

_FILE = "notes.md"
_LINES = 27  # about 2,000 characters, each turn other ones
_CHARS_PER_LINE = 75
_MESSAGES_PER_TURN = 4
_DEMO = ModelSettings.model_validate(
    {"name": "demo", "use": "app.chat_models.demo:DemoChatModel", "token_delay_s": 0}
)


@dataclass(frozen=True, slots=True)
class Growth:
    """A thread grows turn by turn to ``messages``, or as far as ``seconds`` allow; then ``turns`` are measured."""

    messages: int
    turns: int
    seconds: float


@dataclass(frozen=True, slots=True)
class Turns:
    """Turns (question, call, result, answer) of a thread that has so many ``messages`` at the first of them: wall time
    in ms, the median, and what each adds to the database on average."""

    messages: int
    turn_ms: float
    bytes_per_turn: float


@dataclass(frozen=True, slots=True)
class StorageFigures:
    """Two threads of the same turns, one left as it is and one compacted by hand, and then the same turns on both.

    Compacting frees nothing: ``checkpoint_bytes``, all states so far, stay readable, and ``archive_bytes`` come on top.
    """

    checkpoint_mode: CheckpointMode
    uncompacted: Turns
    compacted: Turns
    checkpoint_bytes: int
    archive_bytes: int
    compaction_ms: float

    @property
    def turn_ratio(self) -> float:
        """Time of a turn, compacted / uncompacted."""
        return self.compacted.turn_ms / self.uncompacted.turn_ms

    @property
    def bytes_ratio(self) -> float:
        """Bytes that a turn adds, compacted / uncompacted."""
        return self.compacted.bytes_per_turn / self.uncompacted.bytes_per_turn


async def measure_storage(settings: Settings, database: Database, growth: Growth) -> list[StorageFigures]:
    """Real turns with the demo model and the real tools, in every checkpoint mode, turn by turn side by side.

    The threads are new ones in ``database``; their workspaces lie in the settings' data folder.
    """
    workspaces = Workspaces(settings.data_dir / "workspaces")
    rigs = {mode: _rig(settings, database, mode, workspaces) for mode in MODES}
    pairs = {mode: (_Thread(rig), _Thread(rig)) for mode, rig in rigs.items()}
    threads = [thread for pair in pairs.values() for thread in pair]
    for thread in threads:
        await thread.create(workspaces, growth)
    await _grow(threads, growth)
    compaction_ms = {mode: await compacted.compact() for mode, (_, compacted) in pairs.items()}
    stored = {mode: await compacted.stored() for mode, (_, compacted) in pairs.items()}
    turns = dict(zip(threads, await _measured(threads, growth.turns), strict=True))
    return [
        StorageFigures(
            checkpoint_mode=mode,
            uncompacted=turns[uncompacted],
            compacted=turns[compacted],
            checkpoint_bytes=stored[mode].checkpoints,
            archive_bytes=stored[mode].archive,
            compaction_ms=compaction_ms[mode],
        )
        for mode, (uncompacted, compacted) in pairs.items()
    ]


class _Thread:
    def __init__(self, rig: Rig) -> None:
        self._rig = rig
        self._id = str(uuid4())
        self._turns = count()

    async def create(self, workspaces: Workspaces, growth: Growth) -> None:
        turns = growth.messages // _MESSAGES_PER_TURN + growth.turns
        notes = prose(random.Random(1), turns * _LINES * _CHARS_PER_LINE)
        await workspaces.of(self._id).write(_FILE, notes)
        await self._rig.threads.create(self._id, OWNER, {"graph_id": DEFAULT_AGENT.name})

    async def turn(self) -> float:
        """Take a turn; returns its milliseconds."""
        graph = self._rig.graphs.for_run(DEFAULT_AGENT.name, _DEMO.name)
        call = {"path": _FILE, "offset": next(self._turns) * _LINES + 1, "limit": _LINES}
        start = time.perf_counter()
        await graph.ainvoke(
            {"messages": [HumanMessage(f"What comes next?\n/tool read_file {json.dumps(call)}")]},
            {"configurable": {"thread_id": self._id}},
        )
        return (time.perf_counter() - start) * 1000

    async def compact(self) -> float:
        """Compact by hand; returns the milliseconds."""
        start = time.perf_counter()
        answer = await self._rig.compactions.compact(OWNER, self._id, CompactRequest())
        if not answer["compacted"]:
            raise RuntimeError(f"the thread was not compacted: {answer['reason']}")
        return (time.perf_counter() - start) * 1000

    async def stored(self) -> StoredBytes:
        return await stored_bytes(self._rig.pool, self._id)

    async def length(self) -> int:
        graph = self._rig.graphs.for_state(DEFAULT_AGENT.name)
        state = await graph.aget_state({"configurable": {"thread_id": self._id}})
        return len(state.values["messages"])


def _rig(settings: Settings, database: Database, mode: CheckpointMode, workspaces: Workspaces) -> Rig:
    """Without a trigger: nothing is compacted before it is asked for."""
    settings = replace(
        settings,
        models=(_DEMO,),
        agents=(DEFAULT_AGENT,),
        checkpoint_mode=mode,
        summarization=SummarizationSettings(),
    )
    models = ChatModelRegistry(settings.models, {})
    return assemble(settings, database.pool, models, file_tools(workspaces), DemoChatModel())


async def _grow(threads: Sequence[_Thread], growth: Growth) -> None:
    deadline = time.monotonic() + growth.seconds
    for _ in range(max(1, growth.messages // _MESSAGES_PER_TURN)):
        for thread in threads:
            await thread.turn()
        if time.monotonic() > deadline:
            return


async def _measured(threads: Sequence[_Thread], turns: int) -> list[Turns]:
    lengths = [await thread.length() for thread in threads]
    before = [(await thread.stored()).checkpoints for thread in threads]
    times = [[await thread.turn() for thread in threads] for _ in range(turns)]
    added = [
        (await thread.stored()).checkpoints - start for thread, start in zip(threads, before, strict=True)
    ]
    return [
        Turns(length, median(taken), grown / turns)
        for length, taken, grown in zip(lengths, zip(*times, strict=True), added, strict=True)
    ]
