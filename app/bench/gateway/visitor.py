"""A client that costs little itself: one connection, as much of HTTP as it takes, nothing parsed that is not needed."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass
from types import TracebackType
from typing import Any

# About forty tokens of the demo model.
QUESTION = "Which records does the ledger keep, and what finds them again?"
_TOKEN = b"event: messages\n"
_END = b"event: end\n"
_ERROR = b"event: error\n"
_LARGEST_LINE = 2**20


@dataclass(frozen=True, slots=True)
class Visit:
    """A thread created, a run streamed, the state read. ``first_token_s`` counts from the request of the run on."""

    seconds: float
    first_token_s: float
    tokens: int


class VisitError(Exception):
    """The service did not do what it was asked to."""


class Visitor:
    """A client with one connection. An async context manager."""

    def __init__(self, host: str, port: int) -> None:
        self._host = host
        self._port = port
        self._reader: asyncio.StreamReader | None = None
        self._writer: asyncio.StreamWriter | None = None

    async def __aenter__(self) -> Visitor:
        await self._open()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        if self._writer:
            self._writer.transport.abort()

    async def visit(self) -> Visit:
        """Raises VisitError."""
        begun = time.perf_counter()
        thread_id = await self.create_thread()
        asked = time.perf_counter()
        first, tokens, over = None, 0, False
        async for piece in self.stream_run(thread_id, QUESTION):
            if count := piece.count(_TOKEN):
                first = first or time.perf_counter()
                tokens += count
            if _ERROR in piece:
                raise VisitError("the run failed")
            over = over or _END in piece
        if first is None or not over:
            raise VisitError("the stream ended before the run did")
        state = await self.call("GET", f"/threads/{thread_id}/state")
        if len(state["values"]["messages"]) < 2:
            raise VisitError("the state has no answer")
        return Visit(time.perf_counter() - begun, first - asked, tokens)

    async def create_thread(self) -> str:
        created = await self.call("POST", "/threads", {})
        return str(created["thread_id"])

    async def call(self, method: str, path: str, body: Mapping[str, Any] | None = None) -> Any:
        """The JSON of the answer. Raises VisitError for any status but 200."""
        return json.loads(b"".join([piece async for piece in self.read(method, path, body)]))

    def stream_run(self, thread_id: str, text: str) -> AsyncIterator[bytes]:
        body = {
            "assistant_id": "agent",
            "input": {"messages": [{"role": "user", "content": text}]},
            "stream_mode": ["messages-tuple", "values"],
        }
        return self.read("POST", f"/threads/{thread_id}/runs/stream", body)

    async def read(
        self, method: str, path: str, body: Mapping[str, Any] | None = None
    ) -> AsyncIterator[bytes]:
        """The answer's body as it comes. Raises VisitError for any status but 200 and for a broken connection."""
        try:
            await self._send(method, path, body)
            status, headers = await self._head()
            if status != 200:
                raise VisitError(f"{method} {path.split('/')[-1]}: status {status}")
            async for piece in self._body(headers):
                yield piece
        except (OSError, asyncio.IncompleteReadError, ValueError) as error:
            raise VisitError(f"the connection broke: {type(error).__name__}") from error

    async def _open(self) -> None:
        self._reader, self._writer = await asyncio.open_connection(
            self._host, self._port, limit=_LARGEST_LINE
        )

    async def _send(self, method: str, path: str, body: Mapping[str, Any] | None) -> None:
        assert self._writer
        content = b"" if body is None else json.dumps(body).encode()
        kind = b"content-type: application/json\r\n" if content else b""
        head = f"{method} /api{path} HTTP/1.1\r\nhost: {self._host}\r\ncontent-length: {len(content)}\r\n"
        self._writer.write(head.encode() + kind + b"\r\n" + content)
        await self._writer.drain()

    async def _head(self) -> tuple[int, Mapping[str, str]]:
        assert self._reader
        lines = (await self._reader.readuntil(b"\r\n\r\n")).decode("latin-1").split("\r\n")
        pairs = (line.partition(": ")[::2] for line in lines[1:] if line)
        return int(lines[0].split()[1]), {name.lower(): value for name, value in pairs}

    async def _body(self, headers: Mapping[str, str]) -> AsyncIterator[bytes]:
        assert self._reader
        if headers.get("transfer-encoding") != "chunked":
            yield await self._reader.readexactly(int(headers.get("content-length", "0")))
            return
        while size := int(await self._reader.readline(), 16):
            yield (await self._reader.readexactly(size + 2))[:-2]
        await self._reader.readline()
