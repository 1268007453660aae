"""The HTTP side of the provider stand-in: one connection, and each answer as bytes (or their lack)."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Mapping
from dataclasses import dataclass
from http.client import responses
from typing import Protocol, assert_never
from urllib.parse import urlsplit

from tests.support.answers import (
    Answer,
    Drop,
    Echo,
    Fail,
    HalfStream,
    Hang,
    InvalidJson,
    Reply,
    Request,
    StreamError,
    completion,
    delta,
    event,
    events,
    text_events,
)


class Script(Protocol):
    """What the server asks the test's script."""

    models: list[str]

    def note(self, request: Request) -> None: ...

    def note_hangup(self) -> None: ...

    def answer(self, request: Request) -> Answer: ...

    def hold(self) -> asyncio.Event: ...


@dataclass(slots=True)
class Connection:
    """One client connection: HTTP/1.1 with keep-alive, which is all that the clients under test need."""

    script: Script
    reader: asyncio.StreamReader
    writer: asyncio.StreamWriter

    async def serve(self) -> None:
        try:
            while (request := await self._read()) is not None:
                self.script.note(request)
                if not await self._respond(request):
                    self.writer.transport.abort()
                    return
        except (ConnectionError, asyncio.IncompleteReadError):
            pass  # the client went away, which tests do on purpose
        finally:
            self.writer.close()

    async def _read(self) -> Request | None:
        try:
            head = (await self.reader.readuntil(b"\r\n\r\n")).decode("latin-1")
        except asyncio.IncompleteReadError:
            return None
        first, *lines = head.split("\r\n")
        method, path, _ = first.split(" ")
        headers = {
            name.lower(): value.strip() for name, _, value in (line.partition(":") for line in lines if line)
        }
        raw = await self.reader.readexactly(int(headers.get("content-length", 0)))
        return Request(method, urlsplit(path).path, headers, json.loads(raw) if raw else {})

    async def _respond(self, request: Request) -> bool:
        """Answers; False means that the connection is to be broken."""
        if request.path.endswith("/models"):
            data = [{"id": name, "object": "model", "owned_by": "tests"} for name in self.script.models]
            return await self._plain(200, json.dumps({"object": "list", "data": data}).encode())
        if not request.path.endswith("/chat/completions"):
            return await self._plain(404, b'{"error":{"message":"no such route"}}')
        return await self._play(self.script.answer(request), request)

    async def _play(self, answer: Answer, request: Request) -> bool:
        match answer:
            case Reply():
                return await self._reply(answer, request)
            case Fail(status, body, headers):
                raw = b"" if body is None else (body if isinstance(body, str) else json.dumps(body)).encode()
                return await self._plain(status, raw, headers)
            case StreamError(body):
                return await self._stream_or_plain(request, json.dumps(body))
            case InvalidJson():
                return await self._stream_or_plain(request, '{"id": "chatcmpl-1", "choices": [')
            case Drop():
                return False
            case Hang():
                return await self._hang(answer, request)
            case HalfStream():
                return await self._half(answer, request)
            case Echo():
                raise AssertionError("an echo is resolved before it is played")
            case _:
                assert_never(answer)

    async def _reply(self, reply: Reply, request: Request) -> bool:
        if not request.stream:
            return await self._plain(200, completion(reply, request))
        await self._begin_stream()
        for chunk in events(reply, request):
            await self._chunk(chunk)
            await asyncio.sleep(reply.pause_s)
        return await self._end_stream()

    async def _stream_or_plain(self, request: Request, data: str) -> bool:
        if not request.stream:
            return await self._plain(200, data.encode())
        await self._begin_stream()
        await self._chunk(event(data))
        return await self._end_stream()

    async def _half(self, half: HalfStream, request: Request) -> bool:
        if not request.stream:
            body = completion(Reply(half.text, finish_reason=None), request)
            return await self._plain(200, body if half.clean else body[:-20], cut=not half.clean)
        await self._begin_stream()
        await self._chunk(delta(request, {"role": "assistant", "content": ""}))
        for chunk in text_events(half.text, request):
            await self._chunk(chunk)
        return await self._end_stream() if half.clean else False

    async def _hang(self, hang: Hang, request: Request) -> bool:
        released = self.script.hold()
        if hang.after and request.stream:
            await self._begin_stream()
            for chunk in text_events(hang.after, request):
                await self._chunk(chunk)
        if not await self._wait(released):
            self.script.note_hangup()
            return False
        if hang.then is None:
            return False
        if not (hang.after and request.stream):
            return await self._reply(hang.then, request)
        for chunk in events(hang.then, request):
            await self._chunk(chunk)
        return await self._end_stream()

    async def _wait(self, released: asyncio.Event) -> bool:
        """False when the client left first: it sends nothing before its answer, so a read means it left."""
        left = asyncio.ensure_future(self.reader.read(1))
        free = asyncio.ensure_future(released.wait())
        done, pending = await asyncio.wait({left, free}, return_when=asyncio.FIRST_COMPLETED)
        for task in pending:
            task.cancel()
        await asyncio.gather(*pending, return_exceptions=True)
        return free in done

    async def _plain(
        self, status: int, body: bytes, headers: Mapping[str, str] | None = None, *, cut: bool = False
    ) -> bool:
        head = {
            "content-type": "application/json" if body[:1] in (b"{", b"[") else "text/plain",
            "content-length": str(len(body) + (20 if cut else 0)),
            **(headers or {}),
        }
        self._head(status, head)
        self.writer.write(body)
        await self.writer.drain()
        return not cut

    async def _begin_stream(self) -> None:
        self._head(200, {"content-type": "text/event-stream", "transfer-encoding": "chunked"})
        await self.writer.drain()

    def _head(self, status: int, headers: Mapping[str, str]) -> None:
        lines = [
            f"HTTP/1.1 {status} {responses.get(status, 'Status')}",
            *(f"{name}: {value}" for name, value in headers.items()),
        ]
        self.writer.write(("\r\n".join(lines) + "\r\n\r\n").encode("latin-1"))

    async def _chunk(self, data: bytes) -> None:
        self.writer.write(f"{len(data):x}\r\n".encode() + data + b"\r\n")
        await self.writer.drain()

    async def _end_stream(self) -> bool:
        self.writer.write(b"0\r\n\r\n")
        await self.writer.drain()
        return True
