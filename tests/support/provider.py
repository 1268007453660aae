"""A real HTTP server that stands in for an OpenAI-compatible provider: scripted, and able to misbehave.

It runs in a thread with a loop of its own, so tests may block, start processes that use it, or close their
loop. Requests for which nothing is scripted get the default answer.
"""

from __future__ import annotations

import asyncio
import threading
from collections import deque
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import pytest
from langchain_openai.chat_models._client_utils import _cached_async_httpx_client

from tests.support.answers import (
    Answer,
    Behaviour,
    Drop,
    Fail,
    HalfStream,
    Hang,
    InvalidJson,
    Reply,
    Request,
    ToolCall,
    answer_of,
    resolve,
)
from tests.support.overflow_shapes import OVERFLOWS, ErrorShape
from tests.support.provider_server import Connection

_WAIT_S = 20.0


class Provider:
    """The script of the stand-in and the record of what it was asked.

    A chat request is answered by the first rule whose condition holds (``when``), else by the next scripted
    answer, else by the default. ``limit`` comes before all of them.
    """

    def __init__(self) -> None:
        self.base_url = ""
        self.models: list[str] = ["stand-in"]
        self.requests: list[Request] = []
        self.hangups = 0
        self._rules: list[tuple[Callable[[Request], bool], Behaviour]] = []
        self._script: deque[Behaviour] = deque()
        self._default: Behaviour = Reply()
        self._window: tuple[int, ErrorShape] | None = None
        self._changed = threading.Condition()
        self._held: set[asyncio.Event] = set()
        self._calls = 0
        self._loop: asyncio.AbstractEventLoop | None = None

    # What to answer

    def reply(self, text: str | None = "ok", **options: Any) -> None:
        """Next: this text. ``options`` are the fields of ``Reply``."""
        self.sequence(Reply(text, **options))

    def tool_call(self, name: str, args: Mapping[str, Any], text: str | None = None) -> None:
        """Next: one call of this tool."""
        self.sequence(Reply(text, tool_calls=(self.call(name, args),)))

    def fail(self, status: int, body: Any = None, headers: Mapping[str, str] | None = None) -> None:
        """Next: this HTTP error."""
        self.sequence(Fail(status, body, headers or {}))

    def drop(self) -> None:
        self.sequence(Drop())

    def hang(self, after: str = "", then: Reply | None = None) -> None:
        self.sequence(Hang(after, then))

    def half_stream(self, text: str, *, clean: bool = False) -> None:
        self.sequence(HalfStream(text, clean))

    def invalid_json(self) -> None:
        self.sequence(InvalidJson())

    def sequence(self, *behaviours: Behaviour) -> None:
        """Then: these, one per request."""
        self._script.extend(behaviours)

    def always(self, behaviour: Behaviour) -> None:
        """What requests get for which nothing else is scripted."""
        self._default = behaviour

    def when(self, condition: Callable[[Request], bool], behaviour: Behaviour) -> None:
        """Every request for which the condition holds gets this, before anything scripted."""
        self._rules.append((condition, behaviour))

    def limit(self, tokens: int, shape: ErrorShape = OVERFLOWS[0]) -> None:
        """From now on requests of more than so many tokens (``Request.tokens``) are refused in this shape."""
        self._window = (tokens, shape)

    def call(self, name: str, args: Mapping[str, Any]) -> ToolCall:
        """A tool call with an id of its own, for ``Reply(tool_calls=…)``."""
        self._calls += 1
        return ToolCall(name, args, f"call_{self._calls}")

    # What happened

    @property
    def chats(self) -> list[Request]:
        return [request for request in self.requests if request.path.endswith("/chat/completions")]

    async def asked(self, count: int) -> list[Request]:
        """Waits until so many chat requests have arrived. Raises TimeoutError after 20 s."""
        await self._until(lambda: len(self.chats) >= count)
        return self.chats

    async def hung_up(self, count: int = 1) -> None:
        """Waits until so many clients gave up on an answer that hangs. Raises TimeoutError after 20 s."""
        await self._until(lambda: self.hangups >= count)

    def release(self) -> None:
        """Ends every answer that hangs now."""
        assert self._loop is not None
        self._loop.call_soon_threadsafe(self._release)

    # For the server, in its thread

    def hold(self) -> asyncio.Event:
        held = asyncio.Event()
        self._held.add(held)
        return held

    def _release(self) -> None:
        for held in self._held:
            held.set()
        self._held.clear()

    def note(self, request: Request) -> None:
        with self._changed:
            self.requests.append(request)
            self._changed.notify_all()

    def note_hangup(self) -> None:
        with self._changed:
            self.hangups += 1
            self._changed.notify_all()

    def answer(self, request: Request) -> Answer:
        if self._window is not None and request.tokens > self._window[0]:
            return answer_of(self._window[1])
        for condition, behaviour in self._rules:
            if condition(request):
                return resolve(behaviour, request)
        return resolve(self._script.popleft() if self._script else self._default, request)

    async def _until(self, condition: Callable[[], bool]) -> None:
        def wait() -> bool:
            with self._changed:
                return self._changed.wait_for(condition, _WAIT_S)

        if not await asyncio.to_thread(wait):
            raise TimeoutError(f"the provider saw {len(self.chats)} chat requests, {self.hangups} hang-ups")

    async def _serve(self, ready: threading.Event, stop: asyncio.Event) -> None:
        self._loop = asyncio.get_running_loop()
        tasks: set[asyncio.Task[None]] = set()

        def connected(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            task = asyncio.ensure_future(Connection(self, reader, writer).serve())
            tasks.add(task)
            task.add_done_callback(tasks.discard)

        server = await asyncio.start_server(connected, "127.0.0.1", 0, limit=2**20)
        self.base_url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/v1"
        ready.set()
        await stop.wait()
        server.close()
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


@contextmanager
def running_provider() -> Iterator[Provider]:
    """A provider on a free port of 127.0.0.1 until the block ends; answers that still hang are cut off."""
    # langchain-openai keeps its clients by address for the life of the process. A test that is given the port of an
    # earlier one would get that one's connections, which belong to a loop that is closed.
    _cached_async_httpx_client.cache_clear()
    provider, ready = Provider(), threading.Event()
    stop: list[Callable[[], None]] = []

    async def main() -> None:
        ended = asyncio.Event()
        loop = asyncio.get_running_loop()
        stop.append(lambda: loop.call_soon_threadsafe(ended.set))
        await provider._serve(ready, ended)

    thread = threading.Thread(target=asyncio.run, args=(main(),), name="provider", daemon=True)
    thread.start()
    if not ready.wait(_WAIT_S):
        raise TimeoutError("the provider stand-in did not start")
    try:
        yield provider
    finally:
        stop[0]()
        thread.join(_WAIT_S)
        assert not thread.is_alive(), "the provider stand-in did not stop"


@pytest.fixture
def provider() -> Iterator[Provider]:
    with running_provider() as running:
        yield running
