"""What a finished run leaves: the answer of ``wait`` and ``join``."""

from __future__ import annotations

from typing import Any

from app.persistence.runs import RunStore
from app.ports import Graphs
from app.serialization import interrupt_to_json
from app.services.threads.state import HEAD


class RunResults:
    """Reads the outcome of runs."""

    def __init__(self, runs: RunStore, graphs: Graphs) -> None:
        self._runs = runs
        self._graphs = graphs

    async def values(self, run_id: str) -> Any:
        """The thread's values, open questions in ``__interrupt__``; of a failed run ``{"__error__": …}``."""
        run = await self._runs.find(run_id)
        if run is None:
            return {"__error__": {"error": "RunDeleted", "message": f"Run {run_id} was deleted"}}
        if run.error:
            return {"__error__": run.error}
        graph = self._graphs.for_state(run.kwargs["graph_name"])
        snapshot = await graph.aget_state(HEAD.config(run.thread_id))
        questions = [interrupt_to_json(item) for task in snapshot.tasks for item in task.interrupts]
        return {**snapshot.values, "__interrupt__": questions} if questions else snapshot.values
