"""The state writer: a graph of one node that writes a state and leaves its thread idle."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from langgraph.channels.base import BaseChannel
from langgraph.graph import START, StateGraph
from langgraph.graph.state import CompiledStateGraph

from app.ports import WRITER_NODE


def state_writer(
    schema: type[Any], channels: Mapping[str, BaseChannel[Any, Any, Any]] | None = None
) -> CompiledStateGraph[Any, Any, Any, Any]:
    """``channels`` are those of another graph, beside what the schema has; theirs count where both have one."""
    builder: StateGraph[Any, Any, Any, Any] = StateGraph(schema)
    builder.channels.update(channels or {})
    builder.add_node(WRITER_NODE, _write_nothing)
    builder.add_edge(START, WRITER_NODE)
    return builder.compile()


async def _write_nothing(state: Any) -> dict[str, Any]:
    return {}
