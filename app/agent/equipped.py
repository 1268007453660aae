"""Graphs for one use: built once, each time with a checkpointer of its own."""

from __future__ import annotations

from copy import copy
from typing import Any

from langgraph.checkpoint.base import BaseCheckpointSaver
from langgraph.graph.state import CompiledStateGraph

Graph = CompiledStateGraph[Any, Any, Any, Any]
_UNCHANGED: Any = object()


def equipped(graph: Graph, saver: BaseCheckpointSaver[Any], store: Any = _UNCHANGED) -> Graph:
    """The same graph with ``saver``, and with ``store`` if it is given. Its own ``copy`` builds and checks it anew."""
    twin = copy(graph)
    twin.checkpointer = saver
    if store is not _UNCHANGED:
        twin.store = store
    return twin
