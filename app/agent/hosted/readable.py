"""A state stays readable when what its graph wrote last cannot be applied."""

from __future__ import annotations

from typing import Any

from langchain_core.runnables import RunnableConfig
from langgraph.graph.state import CompiledStateGraph
from langgraph.types import StateSnapshot

from app.agent.hosted.sources import Graph


class ReadableGraph(CompiledStateGraph[Any, Any, Any, Any]):
    """Reads a thread as its newest checkpoint says when the writes behind it break one of the graph's reducers.

    LangGraph applies the writes of finished steps whenever it reads the newest state. A run that ended because a
    reducer raised leaves such writes, and every read of the thread would raise again, also that of a page of threads.
    """

    async def aget_state(self, config: RunnableConfig, *, subgraphs: bool = False) -> StateSnapshot:
        try:
            return await super().aget_state(config, subgraphs=subgraphs)
        except (
            Exception
        ):  # a reducer is somebody else's and may raise anything; what else is wrong raises once more
            place = config["configurable"]
            saver: Any = self.checkpointer
            if place.get("checkpoint_id") or (found := await saver.aget_tuple(config)) is None:
                raise
            at = {**place, "checkpoint_id": found.checkpoint["id"]}
            return await super().aget_state({**config, "configurable": at}, subgraphs=subgraphs)


def readable(graph: Graph) -> ReadableGraph:
    """The same graph, for reading and writing state."""
    # As ``copy`` does it, which keeps the class.
    return ReadableGraph(**{name: value for name, value in vars(graph).items() if name != "__orig_class__"})
