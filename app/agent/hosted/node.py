"""``compaction_node``: automatic compaction for a graph that calls its model itself."""

from __future__ import annotations

from typing import Annotated, Any, NotRequired, TypedDict

from langchain_core.messages import AnyMessage
from langgraph.graph.message import add_messages
from langgraph.runtime import Runtime

from app.agent.hosted.binding import current
from app.agent.job import job_for
from app.agent.state import CompactionMarker, compaction_update
from app.agent.summary_message import marker_in, with_summary_message


class NodeState(TypedDict):
    """The channels that the node reads and writes. A graph that has it gets ``compaction`` with it."""

    messages: Annotated[list[AnyMessage], add_messages]
    compaction: NotRequired[CompactionMarker | None]


async def compaction_node(state: NodeState, runtime: Runtime[Any]) -> dict[str, Any]:
    """A node for the place before the model, in a graph whose ``messages`` have the reducer ``add_messages``::

        builder.add_node("compaction", compaction_node)
        builder.add_edge(START, "compaction")
        builder.add_edge("compaction", "model")

    When a trigger has fired, the older messages are replaced by one that holds their summary, named ``summary``.
    Outside of the service it does nothing.
    """
    binding = current()
    if binding is None:
        return {}
    job = job_for("auto", state, runtime, binding.compactor, binding.requests.agent, binding.model_name)
    prepared = await binding.compactor.automatic(job)
    if prepared is None:
        return {}
    update = compaction_update(prepared.compaction, prepared.compaction_id, job.run_id, marker_in(state))
    return with_summary_message(update)
