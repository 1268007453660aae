"""A thread that waits for an answer is not compacted: the write would lose the question (section I)."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any

import pytest
from langchain.agents import create_agent
from langchain_core.messages import AIMessage, BaseMessage, ToolMessage
from langchain_core.runnables import RunnableConfig
from langchain_core.tools import BaseTool, tool
from langgraph.graph import START, StateGraph
from langgraph.types import Command, interrupt

from app.agent.state import DeltaState
from app.errors import ThreadInterrupted
from app.persistence.checkpoints import ThreadSaver
from app.persistence.database import Database
from app.persistence.runs import RunStore
from app.ports import WRITER_NODE, AgentSpec
from app.services.background import Background
from app.services.compaction.manual import CompactRequest, ManualCompactions
from app.services.compaction.service import CompactionService
from app.services.threads.reservations import Reservations
from tests.support.models import ScriptedModel
from tests.support.threads import talk
from tests.support.transcripts import as_messages
from tests.support.workbench import KEEP_TWO, Workbench


@tool
def ask_person(question: str) -> str:
    """Ask the person."""
    return str(interrupt({"question": question}))


class AskingModel(ScriptedModel):
    """Takes tools, as an agent's model must."""

    def bind_tools(self, tools: Sequence[Any], **_: Any) -> Any:
        return self


class Asking:
    """The port of hosted graphs, with one agent whose tool asks a person."""

    names = ("asking",)
    default = "asking"

    def __init__(self, bench: Workbench, calls: int) -> None:
        self._bench = bench
        asked = [
            {"name": "ask_person", "args": {"question": f"Number {n}?"}, "id": f"c{n}"} for n in range(calls)
        ]
        self._model = AskingModel.saying(AIMessage(content="", tool_calls=asked), "Thanks.")

    def resolve(self, assistant_id: str) -> str:
        return self.default

    def spec(self, name: str | None) -> AgentSpec:
        return AgentSpec(self.default, tools=(ask_person,))

    def for_state(self, name: str | None) -> Any:
        tools: list[BaseTool] = [ask_person]
        return create_agent(self._model, tools, state_schema=DeltaState, checkpointer=self._saver())

    def for_run(self, name: str, model_name: str) -> Any:
        return self.for_state(name)

    def writer(self, name: str | None) -> Any:
        async def nothing(state: Any) -> dict[str, Any]:
            return {}

        builder: StateGraph[Any, Any, Any, Any] = StateGraph(DeltaState)
        builder.add_node(WRITER_NODE, nothing)
        builder.add_edge(START, WRITER_NODE)
        return builder.compile(checkpointer=self._saver())

    def check_compactable(self, name: str | None, values: Mapping[str, Any]) -> None:
        pass

    def write_of(self, name: str | None, update: Mapping[str, Any]) -> dict[str, Any]:
        return dict(update)

    def _saver(self) -> ThreadSaver:
        return ThreadSaver(self._bench.database.pool, self._bench.compactor.committed)


class Stage:
    def __init__(self, database: Database, calls: int) -> None:
        self.bench = Workbench(database)
        self.graphs = Asking(self.bench, calls)
        bench = self.bench
        runs = RunStore(database.pool)
        self.service = CompactionService(
            bench.threads,
            bench.records,
            Reservations(bench.threads),
            ManualCompactions(KEEP_TWO, bench.threads, runs, self.graphs, bench.models, bench.compactor),
            bench.compactor,
            Background(),
        )

    async def paused(self) -> RunnableConfig:
        """A long thread whose agent has asked."""
        config: RunnableConfig = {"configurable": {"thread_id": await self.bench.new_thread()}}
        await self.go(config, {"messages": as_messages(talk(12))})
        return config

    async def go(self, config: RunnableConfig, given: Any) -> None:
        await self.graphs.for_run("asking", "scripted").ainvoke(given, config)

    async def compact(self, config: RunnableConfig) -> dict[str, Any]:
        return await self.service.compact("", config["configurable"]["thread_id"], CompactRequest())

    async def head(self, config: RunnableConfig) -> Any:
        return await self.graphs.for_state(None).aget_state(config)


Setting = Callable[[int], Awaitable[tuple[Stage, RunnableConfig]]]


@pytest.fixture
def setting(database: Database) -> Setting:
    async def on(calls: int) -> tuple[Stage, RunnableConfig]:
        stage = Stage(database, calls)
        return stage, await stage.paused()

    return on


def texts(messages: Sequence[BaseMessage], kind: type[BaseMessage]) -> list[str]:
    return [str(message.content) for message in messages if isinstance(message, kind)]


async def test_a_question_asked_by_a_tool_survives_and_can_be_answered(setting: Setting) -> None:
    stage, config = await setting(1)
    before = await stage.head(config)
    assert before.tasks[0].interrupts
    with pytest.raises(ThreadInterrupted, match="waits for an answer"):
        await stage.compact(config)
    after = await stage.head(config)
    assert after.config == before.config
    assert after.values == before.values
    assert after.tasks[0].interrupts == before.tasks[0].interrupts
    assert await stage.bench.records.page(config["configurable"]["thread_id"], 10, None) == []
    await stage.go(config, Command(resume="blue"))
    messages = (await stage.head(config)).values["messages"]
    assert texts(messages, ToolMessage) == ["blue"]
    assert messages[-1].content == "Thanks."


async def test_answered_it_is_compacted(setting: Setting) -> None:
    stage, config = await setting(1)
    await stage.go(config, Command(resume="blue"))
    done = await stage.compact(config)
    assert done["compacted"]
    head = await stage.head(config)
    assert head.next == ()
    assert len(head.values["messages"]) == done["preserved_message_count"]


async def test_one_of_two_answers_is_not_enough(setting: Setting) -> None:
    stage, config = await setting(2)
    first, second = [task.interrupts[0] for task in (await stage.head(config)).tasks]
    await stage.go(config, Command(resume={first.id: "blue"}))
    with pytest.raises(ThreadInterrupted):
        await stage.compact(config)
    await stage.go(config, Command(resume={second.id: "red"}))
    assert texts((await stage.head(config)).values["messages"], ToolMessage) == ["blue", "red"]
    assert (await stage.compact(config))["compacted"]
