"""Sessions with an MCP server: one that stays open, for a server that is a process of ours; a new one each time, for a
server elsewhere.
"""

from __future__ import annotations

import asyncio
import contextvars
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass, field

import anyio
from mcp import ClientSession, McpError

CLOSING_SECONDS = 10.0

OpenSession = Callable[[], AbstractAsyncContextManager[ClientSession]]


def was_never_sent(error: BaseException) -> bool:
    """Whether a request failed because the session had ended before."""
    return isinstance(error, anyio.ClosedResourceError | anyio.BrokenResourceError)


def has_ended(error: BaseException) -> bool:
    """Whether an error says that the session is over."""
    if isinstance(error, McpError):
        return error.error.message == "Connection closed"
    return was_never_sent(error)


@dataclass(slots=True)
class _Held:
    """An open session in the task that opened it: anyio wants it closed there. ``calls`` are under way."""

    ready: asyncio.Future[ClientSession]
    closing: asyncio.Event = field(default_factory=asyncio.Event)
    task: asyncio.Task[None] | None = None
    calls: int = 0

    async def hold(self, open_session: OpenSession) -> None:
        try:
            async with open_session() as session:
                await session.initialize()
                self.ready.set_result(session)
                await self.closing.wait()
        except Exception as error:  # noqa: BLE001 - the caller gets it; what happens while closing concerns nobody
            self._fail(error)
        finally:
            self._fail(ConnectionError("the session was given up"))

    def _fail(self, error: Exception) -> None:
        if not self.ready.done():
            self.ready.set_exception(error)
            # Looked at, so that asyncio does not complain when nobody waits any more.
            self.ready.exception()


class KeptSession:
    """A session that is opened when it is first used and stays open. One that ended is opened again at its next use."""

    def __init__(self, open_session: OpenSession, connect_timeout_s: float) -> None:
        self._open = open_session
        self._connect_timeout_s = connect_timeout_s
        self._held: _Held | None = None
        self._closing: set[asyncio.Task[None]] = set()

    @asynccontextmanager
    async def use(self) -> AsyncIterator[ClientSession]:
        held = self._current()
        try:
            async with asyncio.timeout(self._connect_timeout_s):
                session = await asyncio.shield(held.ready)
        except Exception:
            self._drop(held)
            raise
        held.calls += 1
        try:
            yield session
        except Exception as error:
            # A server that does not answer its only caller hangs; with others at work it may just be slow.
            if has_ended(error) or (isinstance(error, TimeoutError) and held.calls == 1):
                self._drop(held)
            raise
        finally:
            held.calls -= 1

    async def close(self) -> None:
        if self._held:
            self._drop(self._held)
        if self._closing:
            _, slow = await asyncio.wait(self._closing, timeout=CLOSING_SECONDS)
            for task in slow:
                task.cancel()

    def _current(self) -> _Held:
        if self._held is None:
            held = _Held(asyncio.get_running_loop().create_future())
            # In a context of its own: it outlives the run that needs it first.
            held.task = asyncio.create_task(held.hold(self._open), context=contextvars.Context())
            self._held = held
        return self._held

    def _drop(self, held: _Held) -> None:
        if self._held is held:
            self._held = None
        held.closing.set()
        if held.task and not held.task.done():
            if not held.ready.done():
                held.task.cancel()
            self._closing.add(held.task)
            held.task.add_done_callback(self._closing.discard)


class NewSessions:
    """A session of its own for every use."""

    def __init__(self, open_session: OpenSession) -> None:
        self._open = open_session

    @asynccontextmanager
    async def use(self) -> AsyncIterator[ClientSession]:
        async with self._open() as session:
            await session.initialize()
            yield session

    async def close(self) -> None:
        """There is nothing to close."""
