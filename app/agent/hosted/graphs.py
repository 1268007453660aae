"""The graphs that somebody else wrote, hosted: with the checkpointer, the store and the compactor of the service."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from typing import Any

from langgraph.checkpoint.base import BaseCheckpointSaver
from langgraph.store.base import BaseStore

from app.agent.equipped import equipped
from app.agent.hosted.binding import Binding, SeenRequests, bound
from app.agent.hosted.carry import carry_summary
from app.agent.hosted.readable import readable
from app.agent.hosted.shape import shape_of
from app.agent.hosted.sources import Graph, LoadedGraph
from app.agent.names import resolve_name
from app.ports import AgentSpec, Compactor

StoreOf = Callable[[str], Awaitable[BaseStore]]


class HostedGraphs:
    """``savers`` makes a new checkpointer for each use; ``store_of`` gives the store of a thread's owner."""

    def __init__(
        self,
        loaded: Sequence[LoadedGraph],
        compactor: Compactor,
        savers: Callable[[], BaseCheckpointSaver[Any]],
        store_of: StoreOf,
    ) -> None:
        self._loaded = {graph.name: graph for graph in loaded}
        self._shapes = {graph.name: shape_of(graph.name, graph.template) for graph in loaded}
        self._states = {graph.name: readable(graph.template) for graph in loaded}
        self._writers = {name: readable(shape.writer) for name, shape in self._shapes.items()}
        self._requests = {graph.name: SeenRequests(graph.name) for graph in loaded}
        self._compactor = compactor
        self._savers = savers
        self._store_of = store_of

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(self._loaded)

    @property
    def default(self) -> str:
        return self.names[0]

    def resolve(self, assistant_id_or_name: str) -> str:
        return resolve_name(self.names, assistant_id_or_name)

    def spec(self, name: str | None) -> AgentSpec:
        return self._requests[self._known(name)].agent

    def for_state(self, name: str | None) -> Graph:
        return equipped(self._states[self._known(name)], self._savers(), store=None)

    def writer(self, name: str | None) -> Graph:
        return equipped(self._writers[self._known(name)], self._savers())

    @asynccontextmanager
    async def open_run(self, name: str, model_name: str, config: Mapping[str, Any]) -> AsyncIterator[Graph]:
        if not self._shapes[name].shows_summary:
            await carry_summary(self._shapes[name], self.writer(name), config)
        store = await self._store_of(config["configurable"]["thread_id"])
        binding = Binding(self._compactor, model_name, self._requests[name])
        async with self._loaded[name].opened(config) as graph:
            with bound(binding):
                yield equipped(readable(graph), self._savers(), store=store)

    def check_compactable(self, name: str | None, values: Mapping[str, Any]) -> None:
        self._shapes[self._known(name)].check_compactable(values)

    def write_of(self, name: str | None, update: Mapping[str, Any]) -> dict[str, Any]:
        return self._shapes[self._known(name)].write_of(update)

    def _known(self, name: str | None) -> str:
        return name if name is not None and name in self._loaded else self.default
