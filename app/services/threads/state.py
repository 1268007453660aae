"""State: read through the graph, written as the thread's one writer."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from langchain_core.messages import BaseMessage
from langchain_core.runnables import RunnableConfig
from langgraph.errors import InvalidUpdateError
from langgraph.graph import END, START
from langgraph.graph.state import CompiledStateGraph
from langgraph.types import StateSnapshot, StateUpdate

from app.errors import InvalidInput, NotFound
from app.persistence.threads import LEFT_OUT, StateSummary, Thread, ThreadStore
from app.ports import WRITER_NODE, Graphs
from app.serialization import dumps, interrupt_to_json
from app.services.threads.reservations import Held, Reservations
from app.services.threads.sanitize import CONTROL_CHANNELS, read_values, refuse_control_channels

Graph = CompiledStateGraph[Any, Any, Any, Any]

# A row keeps what people filter and list threads by (a title, a flag), not the work itself.
MAX_KEPT_BYTES = 4096
NEVER_KEPT = CONTROL_CHANNELS | {"messages"}
_COPY = "__copy__"
_SPECIAL_NODES = frozenset({START, END, _COPY})


@dataclass(frozen=True, slots=True)
class Place:
    """A point in a thread's history: the newest (no id) or a checkpoint, of the thread's graph or a subgraph."""

    checkpoint_id: str | None = None
    checkpoint_ns: str = ""
    checkpoint_map: Mapping[str, Any] | None = None

    def config(self, thread_id: str) -> RunnableConfig:
        configurable: dict[str, Any] = {"thread_id": thread_id, "checkpoint_ns": self.checkpoint_ns}
        if self.checkpoint_id:
            configurable["checkpoint_id"] = self.checkpoint_id
        if self.checkpoint_map:
            configurable["checkpoint_map"] = dict(self.checkpoint_map)
        return {"configurable": configurable}


HEAD = Place()


@dataclass(frozen=True, slots=True)
class StateWrite:
    """What a client writes: values of one step, or of several in order; nothing (None) only moves on.

    ``as_node`` None: where the thread stands still, as the state writer, else as the node that ran last.
    """

    values: Mapping[str, Any] | Sequence[Mapping[str, Any]] | None
    as_node: str | None = None
    place: Place = HEAD


@dataclass(frozen=True, slots=True)
class NodeWrite:
    """What one node wrote in one step of a history."""

    values: Mapping[str, Any] | None
    as_node: str


class StateService:
    """The use cases of state. LangGraph is asked for every state, since only it can put one together."""

    def __init__(self, store: ThreadStore, graphs: Graphs, reservations: Reservations) -> None:
        self._store = store
        self._graphs = graphs
        self._reservations = reservations

    async def read(
        self, owner: str, thread_id: str, place: Place = HEAD, *, subgraphs: bool = False
    ) -> StateSnapshot:
        """The state at ``place``; without any checkpoint an empty one. Raises NotFound."""
        thread = await self._thread(owner, thread_id)
        return await _snapshot(self._graphs.for_state(thread.graph_name), thread_id, place, subgraphs)

    async def values(self, thread: Thread) -> Any:
        """The channel values of the thread's newest state, ``{}`` without any."""
        snapshot = await self._graphs.for_state(thread.graph_name).aget_state(HEAD.config(thread.thread_id))
        return snapshot.values

    async def history(
        self,
        owner: str,
        thread_id: str,
        *,
        limit: int,
        before: Place | None = None,
        metadata: Mapping[str, Any] | None = None,
        place: Place = HEAD,
    ) -> AsyncIterator[StateSnapshot]:
        """States, newest first, one at a time. ``before`` is exclusive. Raises NotFound before it returns."""
        thread = await self._thread(owner, thread_id)
        return self._graphs.for_state(thread.graph_name).aget_state_history(
            place.config(thread_id),
            limit=limit,
            before=before.config(thread_id) if before else None,
            filter=dict(metadata) if metadata else None,
        )

    async def update(self, owner: str, thread_id: str, write: StateWrite) -> RunnableConfig:
        """Write to a thread's state and return the config of the new checkpoint.

        Raises NotFound, ThreadBusy while anybody else writes, and InvalidInput for values, a node or a checkpoint
        that the thread's graph does not have.
        """
        steps = _steps(write)
        for where, values in steps:
            refuse_control_channels(values or {}, where)
        async with self._reservations.hold(owner, thread_id) as held:
            return await self._update(await self._thread(owner, thread_id), write, steps, held)

    async def replay(self, owner: str, supersteps: Sequence[Sequence[NodeWrite]], thread_id: str) -> None:
        """Write the steps of another thread's history into a thread.

        Raises NotFound, ThreadBusy, and InvalidInput for values or nodes that the thread's graph does not have.
        """
        async with self._reservations.hold(owner, thread_id) as held:
            thread = await self._thread(owner, thread_id)
            graph = self._graphs.for_state(thread.graph_name)
            updates = [
                [
                    _replayed(graph, write, f"supersteps[{step}].updates[{index}]")
                    for index, write in enumerate(writes)
                ]
                for step, writes in enumerate(supersteps)
            ]
            await held.confirm()
            await _apply(graph, HEAD.config(thread_id), updates)
            await self._summarize(graph, thread_id)

    async def _update(
        self, thread: Thread, write: StateWrite, steps: list[tuple[str, Mapping[str, Any] | None]], held: Held
    ) -> RunnableConfig:
        graph = self._graphs.for_state(thread.graph_name)
        base = await _snapshot(graph, thread.thread_id, write.place)
        target, node = self._writer(thread, graph, base, write)
        known_ids = message_ids(base)
        if not write.place.checkpoint_ns:
            refuse_unknown_channels(graph, steps)
        updates = [
            [StateUpdate(None if values is None else read_values(values, known_ids, where), node)]
            for where, values in steps
        ]
        await held.confirm()
        written = await _apply(target, write.place.config(thread.thread_id), updates)
        await self._summarize(graph, thread.thread_id)
        return written

    async def _summarize(self, graph: Graph, thread_id: str) -> None:
        head = await graph.aget_state(HEAD.config(thread_id))
        await self._store.save_state_summary(thread_id, summarize_snapshot(head))

    def _writer(
        self, thread: Thread, graph: Graph, base: StateSnapshot, write: StateWrite
    ) -> tuple[Graph, str | None]:
        if write.as_node:
            if not write.place.checkpoint_ns:
                _check_node(graph, write.as_node, write.values, "as_node")
            return graph, write.as_node
        if base.next or write.place.checkpoint_ns:
            return graph, None
        # A write as any node of the graph would leave the thread waiting for that node's successors.
        return self._graphs.writer(thread.graph_name), WRITER_NODE

    async def _thread(self, owner: str, thread_id: str) -> Thread:
        thread = await self._store.get(thread_id, owner)
        if thread is None:
            raise NotFound(f"There is no thread {thread_id}")
        return thread


def summarize_snapshot(snapshot: StateSnapshot) -> StateSummary:
    """What the thread's row keeps of its newest state: small values, open interrupts by task, the status, the place."""
    interrupts = {
        task.id: [interrupt_to_json(interrupt) for interrupt in task.interrupts]
        for task in snapshot.tasks
        if task.interrupts
    }
    waiting = bool(snapshot.next or interrupts)
    return StateSummary(
        _small(snapshot.values),
        interrupts,
        "interrupted" if waiting else "idle",
        snapshot.config["configurable"].get("checkpoint_id"),
    )


async def _snapshot(graph: Graph, thread_id: str, place: Place, subgraphs: bool = False) -> StateSnapshot:
    snapshot = await graph.aget_state(place.config(thread_id), subgraphs=subgraphs)
    if place != HEAD and snapshot.created_at is None:
        raise NotFound(f"Thread {thread_id} has no checkpoint {place.checkpoint_id or place.checkpoint_ns}")
    return snapshot


async def _apply(target: Graph, config: RunnableConfig, updates: list[list[StateUpdate]]) -> RunnableConfig:
    try:
        return await target.abulk_update_state(config, updates)
    except (
        InvalidUpdateError,
        LookupError,
        ValueError,
        TypeError,
        AttributeError,
        NotImplementedError,
    ) as error:
        # Reducers and edges of the graph run here: what they cannot handle is what the client wrote.
        hint = "" if updates[0][0].as_node else " (as_node: name the node that this update comes from)"
        raise InvalidInput(f"values: the graph refuses this update: {error}{hint}") from error


def _steps(write: StateWrite) -> list[tuple[str, Mapping[str, Any] | None]]:
    match write.values:
        case None | Mapping():
            return [("values", write.values)]
        case []:
            return [("values", None)]
        case several:
            return [(f"values[{index}]", values) for index, values in enumerate(several)]


def _replayed(graph: Graph, write: NodeWrite, where: str) -> StateUpdate:
    _check_node(graph, write.as_node, write.values, f"{where}.as_node")
    refuse_unknown_channels(graph, [(f"{where}.values", write.values)])
    values = None if write.values is None else read_values(write.values, frozenset(), f"{where}.values")
    return StateUpdate(values, write.as_node)


def _check_node(graph: Graph, node: str, values: Any, where: str) -> None:
    if node == _COPY and values:
        raise InvalidInput(f"{where}: {_COPY} copies a checkpoint and takes no values")
    if node in _SPECIAL_NODES or node in graph.nodes:
        return
    known = ", ".join(name for name in graph.nodes if name != START)
    raise InvalidInput(f"{where}: the graph has no node {node!r}; known: {known}")


def refuse_unknown_channels(graph: Graph, steps: list[tuple[str, Mapping[str, Any] | None]]) -> None:
    """Raises InvalidInput for a key that the graph's state does not have: LangGraph drops it without a word."""
    known = [name for name in graph.channels if ":" not in name and not name.startswith("__")]
    for where, values in steps:
        for name in values or {}:
            if name not in known:
                raise InvalidInput(f"{where}.{name}: the state has no such key; known: {', '.join(known)}")


def message_ids(snapshot: StateSnapshot) -> frozenset[str]:
    """Ids of the messages in a state."""
    messages = snapshot.values.get("messages") if isinstance(snapshot.values, Mapping) else None
    held = messages if isinstance(messages, list) else []
    return frozenset(message.id for message in held if isinstance(message, BaseMessage) and message.id)


def _small(values: Any) -> dict[str, Any]:
    if not isinstance(values, Mapping):
        return {}
    known = {name: value for name, value in values.items() if name not in NEVER_KEPT and value is not None}
    small = {name: value for name, value in known.items() if len(dumps(value)) <= MAX_KEPT_BYTES}
    return small if len(small) == len(known) else {**small, LEFT_OUT: sorted(set(known) - set(small))}
