"""Keeps the todo list."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

from langchain.agents.middleware import AgentMiddleware, TodoListMiddleware
from langchain.tools.tool_node import ToolCallRequest
from langchain_core.messages import ToolMessage
from langgraph.types import Command

from app.agent.tools.todos import TODOS_TOOL
from app.compaction.roles import is_ai

_ONE_AT_A_TIME = "The list was not changed: write_todos replaces the whole list, so call it once at a time."


class TodosMiddleware(TodoListMiddleware[Any, Any]):
    """LangChain's middleware, with its tool among those of the agent and without its hooks: the system prompt stays the
    same text on every call, and refusing parallel lists costs no step and no checkpoint of its own."""

    wrap_model_call = AgentMiddleware.wrap_model_call  # type: ignore[assignment]
    awrap_model_call = AgentMiddleware.awrap_model_call  # type: ignore[assignment]
    after_model = AgentMiddleware.after_model
    aafter_model = AgentMiddleware.aafter_model

    def __init__(self) -> None:
        super().__init__()
        self.tools = []

    async def awrap_tool_call(
        self,
        request: ToolCallRequest,
        handler: Callable[[ToolCallRequest], Awaitable[ToolMessage | Command[Any]]],
    ) -> ToolMessage | Command[Any]:
        call = request.tool_call
        if call["name"] != TODOS_TOOL or not _has_rivals(request.state["messages"]):
            return await handler(request)
        return ToolMessage(_ONE_AT_A_TIME, tool_call_id=call["id"], name=call["name"], status="error")


def _has_rivals(messages: list[Any]) -> bool:
    """Whether the message that is being worked off holds several lists: none of them is the right one."""
    asking = next((message for message in reversed(messages) if is_ai(message)), None)
    return asking is not None and sum(call["name"] == TODOS_TOOL for call in asking.tool_calls) > 1
