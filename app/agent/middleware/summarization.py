"""Automatic compaction, before every model call (rule C1)."""

from __future__ import annotations

from typing import Any

from langchain.agents.middleware import AgentMiddleware
from langgraph.runtime import Runtime

from app.agent.job import job_for
from app.agent.state import FullState, compaction_update
from app.ports import AgentSpec, Compactor


class SummarizationMiddleware(AgentMiddleware[FullState, Any]):
    """The class name is part of the contract: in ``updates`` mode existing front ends look for
    ``SummarizationMiddleware.before_model`` (rule F4)."""

    state_schema = FullState

    def __init__(self, compactor: Compactor, agent: AgentSpec, model_name: str) -> None:
        super().__init__()
        self._compactor = compactor
        self._agent = agent
        self._model_name = model_name

    async def abefore_model(self, state: FullState, runtime: Runtime[Any]) -> dict[str, Any] | None:
        job = job_for("auto", state, runtime, self._compactor, self._agent, self._model_name)
        prepared = await self._compactor.automatic(job)
        if prepared is None:
            return None
        last = state.get("compaction")
        return compaction_update(prepared.compaction, prepared.compaction_id, job.run_id, last)
