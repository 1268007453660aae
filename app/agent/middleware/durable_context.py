"""Keeps what survives outside the conversation and shows it to the model (rules G1, G2, G4)."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

from langchain.agents.middleware import AgentMiddleware, ModelRequest, ModelResponse
from langchain.tools.tool_node import ToolCallRequest
from langchain_core.messages import ToolMessage
from langgraph.types import Command

from app.agent.durable import with_durable_block
from app.agent.skills import SkillCapture
from app.agent.state import FullState


class DurableContextMiddleware(AgentMiddleware[FullState, Any]):
    """Around the model: adds the durable block to the request. Around tools: notes which skill was loaded, in the same
    write as the result, so that nothing can be compacted before it was captured."""

    state_schema = FullState

    def __init__(self, capture: SkillCapture | None = None) -> None:
        super().__init__()
        self._capture = capture

    async def awrap_model_call(
        self,
        request: ModelRequest[Any],
        handler: Callable[[ModelRequest[Any]], Awaitable[ModelResponse[Any]]],
    ) -> ModelResponse[Any]:
        messages: Any = with_durable_block(request.messages, request.state)
        return await handler(request if messages is None else request.override(messages=messages))

    async def awrap_tool_call(
        self,
        request: ToolCallRequest,
        handler: Callable[[ToolCallRequest], Awaitable[ToolMessage | Command[Any]]],
    ) -> ToolMessage | Command[Any]:
        result = await handler(request)
        loaded = self._capture.of(request.tool_call, result) if self._capture else None
        if loaded is None:
            return result
        return Command(update={"messages": [result], "skill_context": [loaded]})
