"""Recovery when the provider says that the request does not fit its context window (rule E7)."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import replace
from typing import Any

from langchain.agents.middleware import AgentMiddleware, ModelRequest, ModelResponse
from langchain.agents.middleware.types import ExtendedModelResponse
from langgraph.types import Command

from app.agent.job import job_for
from app.agent.state import FullState, compaction_update
from app.errors import ContextOverflow
from app.ports import AgentSpec, CompactionJob, Compactor, Prepared

Handler = Callable[[ModelRequest[Any]], Awaitable[ModelResponse[Any]]]


class OverflowMiddleware(AgentMiddleware[FullState, Any]):
    """Compacts at once and retries the call a single time with a smaller request; then gives up with an error that says
    what fills the window."""

    state_schema = FullState

    def __init__(self, compactor: Compactor, agent: AgentSpec, model_name: str) -> None:
        super().__init__()
        self._compactor = compactor
        self._agent = agent
        self._model_name = model_name

    async def awrap_model_call(
        self, request: ModelRequest[Any], handler: Handler
    ) -> ModelResponse[Any] | ExtendedModelResponse[Any]:
        try:
            return await handler(request)
        except Exception as error:
            if not self._compactor.is_overflow(error):
                raise
            return await self._recover(request, handler, error)

    async def _recover(
        self, request: ModelRequest[Any], handler: Handler, error: Exception
    ) -> ExtendedModelResponse[Any]:
        job = job_for(
            "overflow", request.state, request.runtime, self._compactor, self._agent, self._model_name
        )
        prepared = await self._compactor.recover(job)
        if prepared is None:
            raise await self._gave_up(job, "and could not be compacted") from error
        response = await self._retry(job, prepared, request, handler)
        self._compactor.completed(job, prepared)
        update = _update(job, prepared, request)
        # One write, the reply included: as a write of its own it would have to come after the other one.
        response.result = [*update.pop("messages"), *response.result]
        return ExtendedModelResponse(response, Command(update=update))

    async def _retry(
        self, job: CompactionJob, prepared: Prepared, request: ModelRequest[Any], handler: Handler
    ) -> ModelResponse[Any]:
        compaction = prepared.compaction
        kept: Any = list(compaction.kept)
        update = {**_update(job, prepared, request), "messages": kept}
        state: Any = {**request.state, **update}
        try:
            return await handler(request.override(messages=kept, state=state))
        except Exception as error:
            failure = f"the request failed again after compaction ({type(error).__name__})"
            await self._compactor.abandon(job, prepared, failure)
            if not self._compactor.is_overflow(error):
                raise
            smaller = replace(job.context, messages=kept, summary=compaction.summary)
            raise await self._gave_up(replace(job, context=smaller), "even after compaction") from error

    async def _gave_up(self, job: CompactionJob, how: str) -> ContextOverflow:
        filling = await self._compactor.describe(job)
        return ContextOverflow(
            f"The request does not fit the context window of {job.model_name}, {how}: {filling}"
        )


def _update(job: CompactionJob, prepared: Prepared, request: ModelRequest[Any]) -> dict[str, Any]:
    last: Any = request.state.get("compaction")
    return compaction_update(prepared.compaction, prepared.compaction_id, job.run_id, last)
