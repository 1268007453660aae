"""What a graph takes and gives, as JSON schemas, and what it looks like."""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Any

from langgraph.graph.state import CompiledStateGraph
from pydantic import TypeAdapter
from pydantic.errors import PydanticUserError
from pydantic.json_schema import PydanticInvalidForJsonSchema

from app.errors import InvalidInput
from app.ports import Graphs

Graph = CompiledStateGraph[Any, Any, Any, Any]
Schema = dict[str, Any] | None

log = logging.getLogger(__name__)

MAX_XRAY = 100


class GraphSchemas:
    """Reads graphs without running them."""

    def __init__(self, graphs: Graphs) -> None:
        self._graphs = graphs

    def schemas(self, name: str) -> dict[str, Any]:
        """Input, output, state, config and context; None for one that has no JSON schema."""
        return {"graph_id": name, **_schemas(self._graphs.for_state(name))}

    async def picture(self, name: str, xray: bool | int) -> dict[str, Any]:
        """Nodes and edges; ``xray`` draws subgraphs from inside, to a depth where it is a number."""
        drawn = await self._graphs.for_state(name).aget_graph(xray=xray)
        return drawn.to_json()

    async def subgraphs(self, name: str, namespace: str | None, recurse: bool) -> dict[str, Any]:
        """The schemas of the graphs inside, by namespace. Raises InvalidInput for a namespace that is none."""
        graph = self._graphs.for_state(name)
        found = {
            place: {"graph_id": name, **_schemas(inner)}
            async for place, inner in graph.aget_subgraphs(namespace=namespace, recurse=recurse)
            if isinstance(inner, CompiledStateGraph)
        }
        if namespace is not None and not found:
            raise InvalidInput(f"namespace: the graph {name!r} has no subgraph {namespace!r}")
        return found


def _schemas(graph: Graph) -> dict[str, Schema]:
    return {
        "input_schema": _or_none(graph.get_input_jsonschema),
        "output_schema": _or_none(graph.get_output_jsonschema),
        "state_schema": _or_none(lambda: TypeAdapter(graph.builder.state_schema).json_schema()),
        "config_schema": _or_none(graph.get_config_jsonschema),
        "context_schema": _or_none(graph.get_context_jsonschema),
    }


def _or_none(make: Callable[[], Schema]) -> Schema:
    try:
        return make()
    except (PydanticUserError, PydanticInvalidForJsonSchema, NameError, TypeError) as error:
        # Types of somebody else's state need not have one; everything else is known all the same.
        log.info("a graph has no JSON schema: %s", error)
        return None
