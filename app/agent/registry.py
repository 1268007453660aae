"""All hosted graphs under one roof: the agents of the configuration and the graphs of the user."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from typing import Any

from langgraph.graph.state import CompiledStateGraph

from app.agent.names import resolve_name
from app.ports import AgentSpec, Graphs

Graph = CompiledStateGraph[Any, Any, Any, Any]


class GraphRegistry:
    """Asks the one of its ``families`` that has the name. The first family's first graph is the default."""

    def __init__(self, families: Sequence[Graphs]) -> None:
        self._families = [family for family in families if family.names]
        self._of = {name: family for family in self._families for name in family.names}

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(self._of)

    @property
    def default(self) -> str:
        return self._families[0].default

    def resolve(self, assistant_id: str) -> str:
        return resolve_name(self.names, assistant_id)

    def spec(self, name: str | None) -> AgentSpec:
        return self._family(name).spec(name)

    def for_state(self, name: str | None) -> Graph:
        return self._family(name).for_state(name)

    def writer(self, name: str | None) -> Graph:
        return self._family(name).writer(name)

    def open_run(
        self, name: str, model_name: str, config: Mapping[str, Any]
    ) -> AbstractAsyncContextManager[Graph]:
        return self._family(name).open_run(name, model_name, config)

    def check_compactable(self, name: str | None, values: Mapping[str, Any]) -> None:
        self._family(name).check_compactable(name, values)

    def write_of(self, name: str | None, update: Mapping[str, Any]) -> dict[str, Any]:
        return self._family(name).write_of(name, update)

    def _family(self, name: str | None) -> Graphs:
        return self._of.get(name or self.default) or self._families[0]
