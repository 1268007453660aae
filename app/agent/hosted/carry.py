"""A thread that goes on with another graph: its summary must not stay behind in a channel that nobody reads."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from app.agent.hosted.shape import StateShape
from app.agent.hosted.sources import Graph
from app.agent.state import rewritten
from app.errors import Conflict
from app.ports import WRITER_NODE


async def carry_summary(shape: StateShape, writer: Graph, config: Mapping[str, Any]) -> None:
    """Moves a summary out of its channel into the messages, before a graph runs that shows its model nothing else.

    ``config`` is the run's. Raises Conflict when the run starts from an old checkpoint that has such a summary, and
    when the graph has no messages to put it into: the model would answer without knowing what it stands for.
    """
    configurable = config["configurable"]
    place: Any = {"configurable": {"thread_id": configurable["thread_id"]}}
    forked = configurable.get("checkpoint_id")
    if forked:
        place["configurable"] |= {
            "checkpoint_ns": configurable.get("checkpoint_ns", ""),
            "checkpoint_id": forked,
        }
    values = (await writer.aget_state(place)).values
    if not values.get("summary_text"):
        return
    if forked or shape.obstacle(values):
        raise Conflict(
            f"The thread has a summary of earlier messages that the graph {shape.name!r} would not see; go on with "
            "the one that it was written for",
            code="summary_not_shown",
        )
    written = shape.write_of(rewritten(values["messages"], values["summary_text"], values["compaction"]))
    # Written once more, the marker would look like another compaction.
    del written["compaction"]
    await writer.aupdate_state(place, written, as_node=WRITER_NODE)
