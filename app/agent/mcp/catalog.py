"""Which tools the MCP servers have: asked for in the background, kept once known, asked for again when a server was
down. No failure of a server is one of the gateway.
"""

from __future__ import annotations

import asyncio
import contextvars
import logging
import time
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from langchain_core.tools import BaseTool

from app.agent.mcp.names import tool_names
from app.config import McpSettings
from app.config.imports import import_attribute

log = logging.getLogger(__name__)

# How long all that need a server wait for its answer, counted from the question: long enough for one that is up. Of one
# that was down not much is expected.
PATIENCE_SECONDS = 5.0
PATIENCE_WITH_FAILED_SECONDS = 1.0

_SERVER = "app.agent.mcp.server:McpServer"


class Server(Protocol):
    """One MCP server. ``list_tools`` raises McpServerError with a sentence that holds no secret."""

    async def list_tools(self) -> Sequence[BaseTool]: ...

    async def close(self) -> None: ...


@dataclass(slots=True)
class _Entry:
    """What is known of a server. ``tools`` None: it never answered yet. Times are monotonic."""

    server: Server | None = None
    tools: tuple[BaseTool, ...] | None = None
    attempt: asyncio.Task[None] | None = None
    asked_at: float = 0.0
    failed_at: float | None = None

    @property
    def patience_s(self) -> float:
        """Seconds that it is still worth waiting for."""
        patience = PATIENCE_SECONDS if self.failed_at is None else PATIENCE_WITH_FAILED_SECONDS
        return max(0.0, self.asked_at + patience - time.monotonic())


class McpCatalog:
    """The configured servers and their tools. ``reserved`` are names that no tool of theirs may have.

    Its methods are for one event loop.
    """

    def __init__(self, settings: McpSettings, environ: Mapping[str, str], reserved: Collection[str]) -> None:
        self._settings = settings
        self._environ = environ
        self._reserved = frozenset(reserved)
        self._entries = {name: _Entry() for name in settings.enabled}
        self._named: dict[str, tuple[BaseTool, ...]] = {}

    @property
    def servers(self) -> tuple[str, ...]:
        return tuple(self._entries)

    def warm_up(self) -> None:
        """Begin to ask all servers."""
        self._ask(self._entries)

    def known(self, servers: Iterable[str]) -> tuple[BaseTool, ...]:
        """The tools of these servers as far as they are known, in the order of the configuration."""
        wanted = set(servers)
        return tuple(tool for name in self._entries if name in wanted for tool in self._named.get(name, ()))

    async def tools(self, servers: Iterable[str]) -> tuple[BaseTool, ...]:
        """As ``known``, after a server that has not answered yet had its chance: a moment to do so, unless it failed
        just now."""
        wanted = [name for name in servers if name in self._entries]
        self._ask(wanted)
        await asyncio.gather(*(self._wait_for(self._entries[name]) for name in wanted))
        return self.known(wanted)

    async def find(self, tool_name: str, servers: Sequence[str]) -> BaseTool | None:
        """The tool of that name, or None. What is known is not waited for."""
        found = _named(tool_name, self.known(servers))
        return found or _named(tool_name, await self.tools(servers))

    async def close(self) -> None:
        """End what runs: attempts, sessions, processes of servers."""
        attempts = [attempt for entry in self._entries.values() if (attempt := entry.attempt)]
        for attempt in attempts:
            attempt.cancel()
        await asyncio.gather(*attempts, return_exceptions=True)
        started = [entry.server for entry in self._entries.values() if entry.server]
        await asyncio.gather(*(server.close() for server in started), return_exceptions=True)

    def _ask(self, names: Iterable[str]) -> None:
        for name in names:
            entry = self._entries[name]
            if entry.tools is None and entry.attempt is None and self._is_due(entry):
                entry.asked_at = time.monotonic()
                # In a context of its own: it outlives the run that it may be asked for by.
                entry.attempt = asyncio.create_task(
                    self._attempt(name, entry), name=f"mcp {name}", context=contextvars.Context()
                )

    async def _wait_for(self, entry: _Entry) -> None:
        if entry.attempt:
            await asyncio.wait([entry.attempt], timeout=entry.patience_s)

    def _is_due(self, entry: _Entry) -> bool:
        return entry.failed_at is None or time.monotonic() - entry.failed_at >= self._settings.retry_after_s

    async def _attempt(self, name: str, entry: _Entry) -> None:
        try:
            if entry.server is None:
                entry.server = await self._server(name)
            async with asyncio.timeout(self._settings.connect_timeout_s):
                entry.tools = tuple(await entry.server.list_tools())
            self._named = self._with_names()
            log.info("MCP server %s is there with %d tools", name, len(entry.tools))
        except Exception as error:  # noqa: BLE001 - a server that is down, in whatever way, is no failure of ours
            entry.failed_at = time.monotonic()
            log.warning("MCP server %s cannot be used now: %s", name, _why(error))
        finally:
            entry.attempt = None

    async def _server(self, name: str) -> Server:
        """In a thread: what the protocol needs takes half a second to import."""
        make = await asyncio.to_thread(import_attribute, _SERVER)
        server: Server = make(name, self._settings.servers[name], self._settings, self._environ)
        return server

    def _with_names(self) -> dict[str, tuple[BaseTool, ...]]:
        """All tools that are known, renamed where their own name is taken."""
        listed = {name: entry.tools for name, entry in self._entries.items() if entry.tools is not None}
        names = tool_names(
            {name: [tool.name for tool in tools] for name, tools in listed.items()}, self._reserved
        )
        return {
            server: tuple(
                _renamed(tool, names[server, tool.name])
                for tool in {tool.name: tool for tool in tools}.values()
            )
            for server, tools in listed.items()
        }


def _named(name: str, tools: Sequence[BaseTool]) -> BaseTool | None:
    return next((tool for tool in tools if tool.name == name), None)


def _renamed(tool: BaseTool, name: str) -> BaseTool:
    return tool if tool.name == name else tool.model_copy(update={"name": name})


def _why(error: Exception) -> Any:
    if isinstance(error, TimeoutError):
        return "it did not answer in time"
    return getattr(error, "detail", type(error).__name__)
