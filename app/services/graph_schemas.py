"""What a graph takes and gives, as JSON schemas, and what it looks like."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, get_type_hints

from langgraph.graph.state import CompiledStateGraph
from pydantic import TypeAdapter
from pydantic.errors import PydanticUserError
from pydantic.json_schema import PydanticInvalidForJsonSchema

from app.errors import InvalidInput
from app.ports import Graphs

Graph = CompiledStateGraph[Any, Any, Any, Any]
Schema = dict[str, Any] | None

_NO_SCHEMA = (PydanticUserError, PydanticInvalidForJsonSchema, NameError, TypeError)

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
    builder = graph.builder
    return {
        "input_schema": _made(graph.get_input_jsonschema, builder.input_schema),
        "output_schema": _made(graph.get_output_jsonschema, builder.output_schema),
        "state_schema": _made(lambda: TypeAdapter(builder.state_schema).json_schema(), builder.state_schema),
        # What used to be the schema of the config is that of the context; clients ask for both.
        "config_schema": _made(graph.get_context_jsonschema, builder.context_schema),
        "context_schema": _made(graph.get_context_jsonschema, builder.context_schema),
    }


def _made(make: Callable[[], Schema], schema: type[Any] | None) -> Schema:
    """What LangGraph says; where it cannot, for example of a plain TypedDict before Python 3.12, field by field."""
    try:
        return make()
    except _NO_SCHEMA:
        return _by_field(schema) if schema else None


def _by_field(schema: type[Any]) -> Schema:
    properties, definitions = {}, {}
    try:
        hints = get_type_hints(schema)
    except (NameError, TypeError):
        return None
    for name, hint in hints.items():
        try:
            found = TypeAdapter(hint).json_schema()
        except _NO_SCHEMA:
            found = {}
        definitions.update(found.pop("$defs", {}))
        properties[name] = found
    listed = {"$defs": definitions} if definitions else {}
    return {"title": schema.__name__, "type": "object", "properties": properties, **listed}
