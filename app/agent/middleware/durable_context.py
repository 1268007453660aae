"""Shows the model what survives outside the conversation (rule G1)."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

from langchain.agents.middleware import AgentMiddleware, ModelRequest, ModelResponse

from app.agent.durable import with_durable_block


class DurableContextMiddleware(AgentMiddleware[Any, Any]):
    """Adds the durable block to the request; state is never changed."""

    async def awrap_model_call(
        self,
        request: ModelRequest[Any],
        handler: Callable[[ModelRequest[Any]], Awaitable[ModelResponse[Any]]],
    ) -> ModelResponse[Any]:
        messages: Any = with_durable_block(request.messages, request.state)
        return await handler(request if messages is None else request.override(messages=messages))
