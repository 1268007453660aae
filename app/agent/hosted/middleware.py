"""``compaction_middleware``: the compaction of the service for agents that others make with ``create_agent``."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

from langchain.agents.middleware import AgentMiddleware, ModelRequest, ModelResponse
from langchain.agents.middleware.types import ExtendedModelResponse
from langgraph.runtime import Runtime

from app.agent.hosted.binding import Binding, current
from app.agent.job import namespace_of
from app.agent.middleware.durable_context import DurableContextMiddleware
from app.agent.middleware.overflow import OverflowMiddleware
from app.agent.middleware.summarization import SummarizationMiddleware
from app.agent.middleware.valid_request import ValidRequestMiddleware
from app.agent.state import CompactionState

Handler = Callable[[ModelRequest[Any]], Awaitable[ModelResponse[Any]]]


def compaction_middleware(model_name: str | None = None) -> list[AgentMiddleware[Any, Any]]:
    """Middleware that compacts the threads of an agent as those of the service's own agents, outermost first::

        agent = create_agent(model, tools, middleware=[*compaction_middleware(), ...])

    ``model_name`` is the entry of ``models:`` that the agent's model is: its context window counts, and it writes the
    summaries; None: the model of the run. Outside of the service they change nothing.
    """
    return [
        HostedOverflow(model_name),
        HostedDurableContext(),
        HostedSummarization(model_name),
        ValidRequestMiddleware(),
    ]


class HostedOverflow(AgentMiddleware[CompactionState, Any]):
    """Recovery from an overflow (rule E7). It sees what the request holds, which the trigger has to count."""

    name = "OverflowMiddleware"
    state_schema = CompactionState

    def __init__(self, model_name: str | None) -> None:
        super().__init__()
        self._model_name = model_name

    async def awrap_model_call(
        self, request: ModelRequest[Any], handler: Handler
    ) -> ModelResponse[Any] | ExtendedModelResponse[Any]:
        binding = current()
        if binding is None:
            return await handler(request)
        if not namespace_of(request.runtime):
            binding.requests.note(request.system_message, request.tools)
        inner = OverflowMiddleware(
            binding.compactor, binding.requests.agent, _model_of(binding, self._model_name)
        )
        return await inner.awrap_model_call(request, handler)


class HostedSummarization(AgentMiddleware[CompactionState, Any]):
    """Automatic compaction before every model call (rule C1)."""

    name = "SummarizationMiddleware"
    state_schema = CompactionState

    def __init__(self, model_name: str | None) -> None:
        super().__init__()
        self._model_name = model_name

    async def abefore_model(self, state: Any, runtime: Runtime[Any]) -> dict[str, Any] | None:
        binding = current()
        if binding is None:
            return None
        inner = SummarizationMiddleware(
            binding.compactor, binding.requests.agent, _model_of(binding, self._model_name)
        )
        return await inner.abefore_model(state, runtime)


class HostedDurableContext(DurableContextMiddleware):
    """The summary is shown also where nothing compacts: a thread has it, whoever runs it."""

    name = "DurableContextMiddleware"
    state_schema = CompactionState  # type: ignore[assignment]


def _model_of(binding: Binding, model_name: str | None) -> str:
    return model_name or binding.model_name
