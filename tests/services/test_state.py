"""State of graphs that ask, fork, nest and fail, on a real checkpointer."""

from __future__ import annotations

import operator
import uuid
from collections.abc import Awaitable, Callable
from typing import Annotated, Any, TypedDict

import pytest
from langchain_core.messages import AnyMessage
from langgraph.channels.delta import DeltaChannel
from langgraph.checkpoint.postgres.aio import AsyncPostgresSaver
from langgraph.graph import END, START, StateGraph
from langgraph.graph.message import _messages_delta_reducer
from langgraph.types import Command, interrupt

from app.errors import InvalidInput, NotFound, ThreadBusy
from app.persistence.database import Database
from app.persistence.threads import LEFT_OUT, ThreadStore
from app.ports import WRITER_NODE
from app.serialization import state_to_json
from app.services.threads.reservations import Reservations
from app.services.threads.state import MAX_KEPT_BYTES, Place, StateService, StateWrite, summarize_snapshot


class State(TypedDict, total=False):
    messages: Annotated[list[AnyMessage], DeltaChannel(_messages_delta_reducer)]
    title: str
    notes: Annotated[list[Any], operator.add]


async def plan(state: State) -> dict[str, Any]:
    return {"title": "A plan"}


async def ask(state: State) -> dict[str, Any]:
    answer = interrupt({"question": "Sure?"})
    return {"messages": [("ai", f"You said {answer}")]}


def after_ask(state: State) -> str:
    return {"stop": END}[state["title"]]


class OneGraph:
    """The port of hosted graphs, with one graph."""

    names = ("asking",)
    default = "asking"

    def __init__(self, database: Database) -> None:
        self._database = database

    def resolve(self, assistant_id: str) -> str:
        return self.default

    def spec(self, name: str | None) -> Any:
        raise NotImplementedError

    def for_state(self, name: str | None) -> Any:
        inner = StateGraph(State)
        inner.add_node("ask", ask)
        inner.add_edge(START, "ask")
        builder = StateGraph(State)
        builder.add_node("plan", plan)
        builder.add_node("ask", inner.compile())
        builder.add_node("check", plan)
        builder.add_edge(START, "plan")
        builder.add_edge("plan", "ask")
        builder.add_conditional_edges("check", after_ask, [END])
        builder.add_edge("ask", END)
        return builder.compile(checkpointer=self._saver())

    def writer(self, name: str | None) -> Any:
        builder = StateGraph(State)
        builder.add_node(WRITER_NODE, plan)
        builder.add_edge(START, WRITER_NODE)
        return builder.compile(checkpointer=self._saver())

    def for_run(self, name: str, model_name: str) -> Any:
        return self.for_state(name)

    def _saver(self) -> AsyncPostgresSaver:
        return AsyncPostgresSaver(self._database.pool)


@pytest.fixture
def store(database: Database) -> ThreadStore:
    return ThreadStore(database.pool)


@pytest.fixture
def graphs(database: Database) -> OneGraph:
    return OneGraph(database)


@pytest.fixture
def states(store: ThreadStore, graphs: OneGraph) -> StateService:
    return StateService(store, graphs, Reservations(store))


@pytest.fixture
async def thread_id(store: ThreadStore) -> str:
    created = await store.create(str(uuid.uuid4()), "", {})
    assert created
    return created.thread_id


Run = Callable[[Any], Awaitable[Any]]


@pytest.fixture
def run(graphs: OneGraph, thread_id: str) -> Run:
    """Run the graph on the thread, as a worker would."""

    async def invoke(given: Any) -> Any:
        return await graphs.for_run("asking", "").ainvoke(given, {"configurable": {"thread_id": thread_id}})

    return invoke


async def test_a_thread_that_waits_for_an_answer_says_so(
    states: StateService, store: ThreadStore, thread_id: str, run: Run
) -> None:
    await run({"messages": [("user", "go")]})
    snapshot = await states.read("", thread_id)
    summary = summarize_snapshot(snapshot)
    await store.save_state_summary(thread_id, summary)
    thread = await store.get(thread_id, "")
    assert thread
    assert thread.status == "interrupted"
    [task] = snapshot.tasks
    assert thread.interrupts == {task.id: [{"value": {"question": "Sure?"}, "id": task.interrupts[0].id}]}
    assert thread.values == {"title": "A plan", "notes": []}


async def test_an_error_is_the_status_until_the_next_write(
    states: StateService, store: ThreadStore, thread_id: str
) -> None:
    summary = summarize_snapshot(await states.read("", thread_id))
    await store.save_state_summary(thread_id, summary, error={"error": "ValueError", "message": "x\0y"})
    failed = await store.get(thread_id, "")
    assert failed
    assert (failed.status, failed.error) == ("error", {"error": "ValueError", "message": "x\ufffdy"})
    await states.update("", thread_id, StateWrite({"title": "again"}))
    mended = await store.get(thread_id, "")
    assert mended
    assert (mended.status, mended.error) == ("idle", None)


async def test_only_small_values_are_kept_beside_the_state(
    states: StateService, store: ThreadStore, thread_id: str
) -> None:
    values = {"title": "x" * MAX_KEPT_BYTES, "notes": ["short"], "messages": ["hi"]}
    await states.update("", thread_id, StateWrite(values))
    thread = await store.get(thread_id, "")
    assert thread
    assert thread.values == {"notes": ["short"], LEFT_OUT: ["title"]}
    assert (await states.values(thread))["title"] == values["title"]


async def test_a_write_to_a_waiting_thread_counts_as_the_step_that_ran_last(
    states: StateService, thread_id: str, run: Run
) -> None:
    await run({"messages": [("user", "go")]})
    await states.update("", thread_id, StateWrite({"title": "Another plan"}))
    state = await states.read("", thread_id)
    assert state.values["title"] == "Another plan"
    assert state.next == ("ask",)


async def test_writing_as_the_asking_node_answers_for_it(
    states: StateService, store: ThreadStore, thread_id: str, run: Run
) -> None:
    await run({"messages": [("user", "go")]})
    await states.update("", thread_id, StateWrite({"messages": [["ai", "Never mind"]]}, as_node="ask"))
    state = await states.read("", thread_id)
    assert state.next == ()
    thread = await store.get(thread_id, "")
    assert thread
    assert (thread.status, thread.interrupts) == ("idle", {})


async def test_a_thread_that_goes_on_after_a_write_still_takes_its_answer(
    states: StateService, thread_id: str, run: Run
) -> None:
    await run({"messages": [("user", "go")]})
    await states.update("", thread_id, StateWrite({"title": "Another plan"}))
    await run(None)
    await run(Command(resume="yes"))
    state = await states.read("", thread_id)
    assert state.values["messages"][-1].content == "You said yes"
    assert state.values["title"] == "Another plan"


async def test_the_state_of_a_subgraph_is_read_and_listed_by_its_namespace(
    states: StateService, thread_id: str, run: Run
) -> None:
    await run({"messages": [("user", "go")]})
    [task] = (await states.read("", thread_id)).tasks
    assert task.state
    place = Place(checkpoint_ns=task.state["configurable"]["checkpoint_ns"])
    nested = state_to_json(await states.read("", thread_id, place))
    assert nested["next"] == ["ask"]
    assert nested["checkpoint"]["checkpoint_ns"] == place.checkpoint_ns
    history = [state async for state in await states.history("", thread_id, limit=10, place=place)]
    assert history
    whole = state_to_json(await states.read("", thread_id, subgraphs=True))
    assert whole["tasks"][0]["state"]["next"] == ["ask"]


async def test_a_write_into_a_subgraph_stays_there(states: StateService, thread_id: str, run: Run) -> None:
    await run({"messages": [("user", "go")]})
    [task] = (await states.read("", thread_id)).tasks
    assert task.state
    place = Place(checkpoint_ns=task.state["configurable"]["checkpoint_ns"])
    await states.update("", thread_id, StateWrite({"title": "inner"}, as_node="ask", place=place))
    assert (await states.read("", thread_id, place)).values["title"] == "inner"
    assert (await states.read("", thread_id)).values["title"] == "A plan"


@pytest.mark.parametrize(
    ("write", "problem"),
    [
        (StateWrite({"title": "go"}, as_node="check"), "the graph refuses this update"),
        (StateWrite({"title": "go"}, as_node="check"), "'go'"),
        (StateWrite({"title": "go"}, as_node="nowhere"), "known: plan, ask, check"),
        (StateWrite({"mood": "x"}), "known: messages, title, notes"),
        (StateWrite({"messages": ["x"]}, as_node="__copy__"), "as_node"),
        (StateWrite({"notes": 5}), "the graph refuses this update"),
        (StateWrite({"title": "x"}, place=Place(checkpoint_ns="nowhere:1")), "nowhere"),
    ],
)
async def test_what_the_graph_cannot_take_is_refused_and_changes_nothing(
    states: StateService, thread_id: str, run: Run, write: StateWrite, problem: str
) -> None:
    await run({"messages": [("user", "go")]})
    before = await states.read("", thread_id)
    with pytest.raises((InvalidInput, NotFound)) as refused:
        await states.update("", thread_id, write)
    assert problem in refused.value.detail
    assert await states.read("", thread_id) == before
    await states.update("", thread_id, StateWrite({"title": "fine"}, as_node="plan"))


async def test_threads_of_others_do_not_exist(states: StateService, thread_id: str) -> None:
    with pytest.raises(NotFound):
        await states.read("somebody", thread_id)
    with pytest.raises(NotFound):
        await states.update("somebody", thread_id, StateWrite({"title": "x"}))
    with pytest.raises(NotFound):
        await states.history("somebody", thread_id, limit=1)


async def test_a_held_thread_is_not_written(states: StateService, store: ThreadStore, thread_id: str) -> None:
    async with Reservations(store).hold("", thread_id):
        with pytest.raises(ThreadBusy):
            await states.update("", thread_id, StateWrite({"title": "x"}))
    await states.update("", thread_id, StateWrite({"title": "x"}))
