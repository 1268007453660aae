"""Keeps long results of tools out of the conversation."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import replace
from typing import Any

from langchain.agents.middleware import AgentMiddleware
from langchain.tools.tool_node import ToolCallRequest
from langchain_core.messages import ToolMessage
from langchain_core.tools import BaseTool
from langgraph.types import Command

from app.agent.tool_output import ToolOutput


class ToolOutputMiddleware(AgentMiddleware[Any, Any]):
    """Around every tool call, whoever answers it. ``bounded`` are tools with a limit of their own: what they return
    from a file must not become a file again."""

    def __init__(self, output: ToolOutput, bounded: Sequence[BaseTool]) -> None:
        super().__init__()
        self._output = output
        self._bounded = tuple(bounded)

    async def awrap_tool_call(
        self,
        request: ToolCallRequest,
        handler: Callable[[ToolCallRequest], Awaitable[ToolMessage | Command[Any]]],
    ) -> ToolMessage | Command[Any]:
        result: Any = await handler(request)
        # By identity: a tool of somebody else may have the same name.
        if any(request.tool is tool for tool in self._bounded):
            return result
        thread_id = request.runtime.config.get("configurable", {}).get("thread_id")
        return await self._fitted(result, thread_id)

    async def _fitted(self, result: Any, thread_id: str | None) -> Any:
        match result:
            case ToolMessage():
                return await self._output.fitted(result, thread_id)
            case Command(update={"messages": list() as messages, **others}):
                fitted = [await self._fitted(message, thread_id) for message in messages]
                return replace(result, update={**others, "messages": fitted})
            case list():
                return [await self._fitted(item, thread_id) for item in result]
            case _:
                return result
