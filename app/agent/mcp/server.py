"""One MCP server: its tools, and calls of them. Whatever goes wrong is a sentence without secrets.

A server that is a process of ours is started once and kept; one elsewhere gets a new session for each call.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from typing import Any

import httpx
from langchain_core.tools import BaseTool
from langchain_mcp_adapters.interceptors import MCPToolCallRequest
from langchain_mcp_adapters.sessions import create_session
from langchain_mcp_adapters.tools import load_mcp_tools
from mcp import ClientSession, McpError, StdioServerParameters, stdio_client
from mcp.types import CallToolResult

from app.agent.mcp.results import failure, readable
from app.agent.mcp.sessions import KeptSession, NewSessions, has_ended, was_never_sent
from app.agent.mcp.stderr import ErrorOutput
from app.config import McpServerSettings, McpSettings
from app.config.mcp import expand
from app.errors import McpServerError
from app.telemetry import redact

# Of a value as it is written into the configuration, and of a variable's: shorter ones are words of any text.
_SHORTEST_WRITTEN_SECRET = 8
_SHORTEST_SECRET = 4
_MOST_CHARACTERS = 500


class McpServer:
    """``settings`` of the server, ``section`` for the times that it does not set itself."""

    def __init__(
        self, name: str, settings: McpServerSettings, section: McpSettings, environ: Mapping[str, str]
    ) -> None:
        self._name = name
        self._settings = settings
        self._environ = environ
        self._connect_timeout_s = section.connect_timeout_s
        self._call_timeout_s = settings.call_timeout_s or section.call_timeout_s
        self._errors = ErrorOutput()
        self._sessions = (
            KeptSession(self._process, section.connect_timeout_s)
            if settings.transport == "stdio"
            else NewSessions(self._remote)
        )

    async def list_tools(self) -> Sequence[BaseTool]:
        """Raises McpServerError."""
        missing = self._settings.missing_variables(self._environ)
        if missing:
            raise McpServerError(f"{', '.join(f'${name}' for name in missing)} is not set")
        try:
            async with self._sessions.use() as session:
                tools = await load_mcp_tools(
                    session, server_name=self._name, tool_interceptors=[self._intercepted]
                )
        except Exception as error:
            raise McpServerError(f"it {self._why(error)}{self._last_words()}") from error
        return tools

    async def close(self) -> None:
        await self._sessions.close()
        self._errors.close()

    async def _intercepted(self, request: MCPToolCallRequest, handler: Any) -> CallToolResult:
        """Every call, in the place of the adapter's own, whose failures would end the run."""
        try:
            return readable(await self._called(request))
        except Exception as error:  # noqa: BLE001 - whatever a server does is for the agent to deal with
            return failure(f"The tool failed: the MCP server {self._name} {self._why(error)}.")

    async def _called(self, request: MCPToolCallRequest) -> CallToolResult:
        try:
            return await self._call(request)
        except Exception as error:
            if not was_never_sent(error):
                raise
        # The server ended after its last call; this one has not reached it.
        return await self._call(request)

    async def _call(self, request: MCPToolCallRequest) -> CallToolResult:
        async with self._sessions.use() as session, asyncio.timeout(self._call_timeout_s):
            return await session.call_tool(request.name, request.args)

    @asynccontextmanager
    async def _process(self) -> AsyncIterator[ClientSession]:
        settings = self._settings
        parameters = StdioServerParameters(
            command=self._expanded(settings.command or ""),
            args=[self._expanded(text) for text in settings.args],
            env={name: self._expanded(text) for name, text in settings.env.items()},
            cwd=settings.cwd,
        )
        with self._errors.stream() as errors:
            async with (
                stdio_client(parameters, errlog=errors) as (read, write),
                ClientSession(read, write) as session,
            ):
                yield session

    @asynccontextmanager
    async def _remote(self) -> AsyncIterator[ClientSession]:
        connection: Any = {
            "transport": self._settings.transport,
            "url": self._expanded(self._settings.url or ""),
            "headers": {name: self._expanded(text) for name, text in self._settings.headers.items()},
            "timeout": self._connect_timeout_s,
            "sse_read_timeout": self._call_timeout_s,
        }
        async with create_session(connection) as session:
            yield session

    def _expanded(self, text: str) -> str:
        return expand(text, self._environ)

    def _why(self, error: BaseException) -> str:
        """What went wrong, after "the server". Text of the server itself is told; addresses never are."""
        while isinstance(error, BaseExceptionGroup):
            error = error.exceptions[0]
        match error:
            case McpError() if not has_ended(error):
                return f"answered with an error: {self._without_secrets(error.error.message)}"
            case TimeoutError():
                return "did not answer in time"
            case FileNotFoundError():
                return "could not be started: there is no such command or folder"
            case httpx.HTTPStatusError():
                return f"answered with the status {error.response.status_code}"
            case httpx.TransportError() | OSError():
                return f"cannot be reached ({type(error).__name__})"
            case _ if has_ended(error):
                return "ended before it answered"
            case _:
                return f"failed ({type(error).__name__})"

    def _last_words(self) -> str:
        """The end of what a process wrote to its error output, for the log."""
        words = self._errors.last_line()
        return f"; it wrote: {self._without_secrets(words)}" if words else ""

    def _without_secrets(self, text: str) -> str:
        settings = self._settings
        given = (*settings.env.values(), *settings.headers.values())
        secrets = {value for value in given if "$" not in value and len(value) >= _SHORTEST_WRITTEN_SECRET}
        variables = (self._environ.get(name, "") for name in settings.variables())
        secrets |= {value for value in variables if len(value) >= _SHORTEST_SECRET}
        for secret in sorted(secrets, key=len, reverse=True):
            text = text.replace(secret, "***")
        return redact(" ".join(text.split()))[:_MOST_CHARACTERS]
