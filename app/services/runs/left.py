"""What a run leaves in its thread, read at its end."""

from __future__ import annotations

import logging
from dataclasses import dataclass

from langgraph.types import StateSnapshot

from app.persistence.checkpoints import ThreadSaver
from app.persistence.outage import is_outage
from app.persistence.runs import Run
from app.persistence.threads import StateSummary
from app.ports import Graphs
from app.serialization import dumps
from app.services.threads.state import HEAD, NEVER_KEPT, summarize_snapshot

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Left:
    """What the thread's row keeps of its state, None when that cannot be read, and all of the values as JSON for a run
    that has a webhook to be told of them."""

    summary: StateSummary | None = None
    values: str | None = None


async def left_by(run: Run, graphs: Graphs) -> Left:
    """Raises what the database raises while it is away."""
    told = bool(run.kwargs.get("webhook"))
    try:
        snapshot = (None if told else await _brief(run, graphs)) or await _whole(run, graphs)
        values = dumps(snapshot.values).decode() if told else None
        return Left(summarize_snapshot(snapshot), values)
    except Exception as error:
        if is_outage(error):
            raise
        # A state that cannot be read, for example of a class that is gone, must not keep the run from ending.
        log.exception("cannot keep what the state of thread %s says", run.thread_id)
        return Left()


async def _brief(run: Run, graphs: Graphs) -> StateSnapshot | None:
    """Without the conversation, which would be read to be thrown away. None where that cannot be: the graph may be
    somebody else's, whose state is nothing without its messages."""
    graph = graphs.for_state(run.kwargs["graph_name"])
    if not isinstance(graph.checkpointer, ThreadSaver):
        return None
    graph.checkpointer.leave_out(NEVER_KEPT)
    try:
        return await graph.aget_state(HEAD.config(run.thread_id))
    except Exception as error:
        if is_outage(error):
            raise
        # Whatever the graph's own code raises; who reads the whole state next is told what is wrong.
        log.debug("thread %s cannot be read without its messages", run.thread_id, exc_info=True)
        return None


async def _whole(run: Run, graphs: Graphs) -> StateSnapshot:
    return await graphs.for_state(run.kwargs["graph_name"]).aget_state(HEAD.config(run.thread_id))
