"""Offers the tools of MCP servers and calls them."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import Any

from langchain.agents.middleware import AgentMiddleware, ModelRequest, ModelResponse
from langchain.tools.tool_node import ToolCallRequest
from langchain_core.messages import ToolMessage
from langgraph.types import Command

from app.agent.mcp import McpCatalog


class McpMiddleware(AgentMiddleware[Any, Any]):
    """Which tools there are is asked anew for each call: a server may come up in the middle of a run."""

    def __init__(self, catalog: McpCatalog, servers: Sequence[str]) -> None:
        super().__init__()
        self._catalog = catalog
        self._servers = tuple(servers)

    async def awrap_model_call(
        self,
        request: ModelRequest[Any],
        handler: Callable[[ModelRequest[Any]], Awaitable[ModelResponse[Any]]],
    ) -> ModelResponse[Any]:
        tools = await self._catalog.tools(self._servers)
        return await handler(request.override(tools=[*request.tools, *tools]) if tools else request)

    async def awrap_tool_call(
        self,
        request: ToolCallRequest,
        handler: Callable[[ToolCallRequest], Awaitable[ToolMessage | Command[Any]]],
    ) -> ToolMessage | Command[Any]:
        if request.tool is not None:
            return await handler(request)
        tool = await self._catalog.find(request.tool_call["name"], self._servers)
        if tool is None:
            return await handler(request)
        return _plain(await handler(request.override(tool=tool)))


def _plain(result: Any) -> Any:
    """What a server may say, and nothing else: a message made here, whose marks no server can have put there. Text
    alone is a text, which every provider takes."""
    if not isinstance(result, ToolMessage):
        return result
    content: Any = result.content
    if isinstance(content, list) and all(
        isinstance(block, dict) and block.get("type") == "text" for block in content
    ):
        content = "\n\n".join(str(block.get("text", "")) for block in content)
    return ToolMessage(
        content,
        artifact=result.artifact,
        status=result.status,
        name=result.name,
        tool_call_id=result.tool_call_id,
    )
