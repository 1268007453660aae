"""What is sent to a provider is always valid, whatever stands in state (rule C8)."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

from langchain.agents.middleware import AgentMiddleware, ModelRequest, ModelResponse

from app.compaction.repair import system_messages_lead, valid_request

# Integrations that refuse a system message behind the first other one.
_SYSTEM_FIRST = ("anthropic", "chat-google", "vertexai", "chat-vertex", "amazon_bedrock", "amazon-bedrock")


class ValidRequestMiddleware(AgentMiddleware[Any, Any]):
    """Gives calls without a result a synthetic one and leaves out orphan results; state stays as it is."""

    async def awrap_model_call(
        self,
        request: ModelRequest[Any],
        handler: Callable[[ModelRequest[Any]], Awaitable[ModelResponse[Any]]],
    ) -> ModelResponse[Any]:
        messages: Any = valid_request(request.messages)
        if request.model._llm_type.startswith(_SYSTEM_FIRST):
            messages = system_messages_lead(messages)
        return await handler(request.override(messages=messages))
