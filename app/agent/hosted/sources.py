"""From what ``graphs:`` names to a compiled graph: a graph, a builder, or a function that makes one."""

from __future__ import annotations

import inspect
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from typing import Any

from langgraph.graph import StateGraph
from langgraph.graph.state import CompiledStateGraph

from app.agent.hosted.loading import cause_of, load_target, refusal
from app.config import GraphSettings
from app.errors import ConfigError

Graph = CompiledStateGraph[Any, Any, Any, Any]
Factory = Callable[..., Any]

# What a factory is called with where there is no run: at the start of the service.
NO_RUN: Mapping[str, Any] = {"configurable": {}}


@dataclass(frozen=True, slots=True)
class LoadedGraph:
    """A graph of the user. ``template`` is the one made at the start: every read uses it, and every run that has no
    graph of its own. ``per_run`` makes one from the configuration of a run."""

    settings: GraphSettings
    template: Graph
    per_run: Factory | None = None

    @property
    def name(self) -> str:
        return self.settings.name

    @asynccontextmanager
    async def opened(self, config: Mapping[str, Any]) -> AsyncIterator[Graph]:
        """The graph of one run, with what its factory holds open for it. Raises what the factory raises."""
        if self.per_run is None:
            yield self.template
            return
        async with _made(self.settings, self.per_run, (config,)) as graph:
            yield graph


@asynccontextmanager
async def loaded_graphs(settings: Sequence[GraphSettings]) -> AsyncIterator[tuple[LoadedGraph, ...]]:
    """All graphs of the configuration. What their factories hold open is closed at the end. Raises ConfigError."""
    async with AsyncExitStack() as stack:
        yield tuple([await _loaded(graph, stack) for graph in settings])


async def _loaded(graph: GraphSettings, stack: AsyncExitStack) -> LoadedGraph:
    found = load_target(graph)
    if isinstance(found, StateGraph | CompiledStateGraph) or not callable(found):
        return LoadedGraph(graph, _compiled(graph, found))
    takes_config = _takes_config(graph, found)
    try:
        opening = _made(graph, found, (dict(NO_RUN),) if takes_config else ())
        template = await stack.enter_async_context(opening)
    except ConfigError:
        raise
    except Exception as error:  # the factory is somebody else's and may raise anything
        raise refusal(graph, f"{graph.attribute}() failed: {cause_of(error)}") from error
    return LoadedGraph(graph, template, found if takes_config else None)


@asynccontextmanager
async def _made(graph: GraphSettings, factory: Factory, arguments: tuple[Any, ...]) -> AsyncIterator[Graph]:
    made = factory(*arguments)
    if inspect.isawaitable(made):
        made = await made
    async with AsyncExitStack() as stack:
        if hasattr(made, "__aenter__"):
            made = await stack.enter_async_context(made)
        elif hasattr(made, "__enter__"):
            made = stack.enter_context(made)
        yield _compiled(graph, made)


def _takes_config(graph: GraphSettings, factory: Factory) -> bool:
    """Whether the factory wants the configuration of the run. Raises ConfigError when it wants more than that."""
    try:
        wanted = [
            parameter
            for parameter in inspect.signature(factory).parameters.values()
            if parameter.kind in (parameter.POSITIONAL_ONLY, parameter.POSITIONAL_OR_KEYWORD)
        ]
    except ValueError:
        wanted = []
    needed = [parameter.name for parameter in wanted if parameter.default is parameter.empty]
    if len(needed) > 1:
        raise refusal(graph, f"a factory takes nothing or the config, this one wants {', '.join(needed)}")
    return bool(needed) or any(parameter.name == "config" for parameter in wanted[:1])


def _compiled(graph: GraphSettings, found: Any) -> Graph:
    try:
        compiled = found.compile() if isinstance(found, StateGraph) else found
    except ValueError as error:
        raise refusal(graph, f"the graph does not compile: {' '.join(str(error).split())}") from error
    if not isinstance(compiled, CompiledStateGraph):
        raise refusal(
            graph,
            f"it is a {type(found).__name__}, not a StateGraph, a compiled one or a function that makes one",
        )
    if "__root__" in compiled.channels:
        raise refusal(graph, "its state must have keys: a TypedDict, a dataclass or a pydantic model")
    return compiled
