"""A real HTTP server that takes webhooks: it remembers what came and answers as it was told."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

import orjson

WAIT_S = 20.0


@dataclass(frozen=True, slots=True)
class Received:
    """One request, with the names of its headers in lower case."""

    path: str
    headers: dict[str, str]
    raw: bytes

    @property
    def body(self) -> Any:
        return orjson.loads(self.raw)


@dataclass
class Receiver:
    """Answers with the next of ``answers`` (a status, or seconds of silence before a 200), then with 200."""

    port: int
    answers: list[int | float] = field(default_factory=list)
    location: str = ""
    received: list[Received] = field(default_factory=list)
    _news: asyncio.Condition = field(default_factory=asyncio.Condition)

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}/hook?of=run"

    async def got(self, count: int) -> list[Received]:
        """The requests, as soon as there are so many."""
        async with asyncio.timeout(WAIT_S), self._news:
            await self._news.wait_for(lambda: len(self.received) >= count)
        return self.received

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            head = (await reader.readuntil(b"\r\n\r\n")).decode().split("\r\n")
            headers = {
                name.lower(): value for name, _, value in (line.partition(": ") for line in head[1:] if line)
            }
            raw = await reader.readexactly(int(headers.get("content-length", 0)))
            async with self._news:
                self.received.append(Received(head[0].split(" ")[1], headers, raw))
                self._news.notify_all()
            answer = self.answers.pop(0) if self.answers else 200
            if isinstance(answer, float):
                await asyncio.sleep(answer)
            status = 200 if isinstance(answer, float) else answer
            extra = f"location: {self.location}\r\n" if self.location else ""
            writer.write(f"HTTP/1.1 {status} Told\r\n{extra}content-length: 2\r\n\r\nok".encode())
            await writer.drain()
        except (asyncio.IncompleteReadError, ConnectionError):
            return
        finally:
            writer.close()


@asynccontextmanager
async def receiving(port: int = 0) -> AsyncIterator[Receiver]:
    """A receiver on loopback, on a free port if none is given."""
    bound = socket.create_server(("127.0.0.1", port))
    receiver = Receiver(bound.getsockname()[1])
    server = await asyncio.start_server(receiver.serve, sock=bound)
    try:
        yield receiver
    finally:
        server.close()
