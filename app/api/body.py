"""Requests are looked at before any route sees them: size, JSON, and text that no database can keep."""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import Iterable
from contextlib import suppress
from typing import Any
from urllib.parse import parse_qsl

import orjson
from starlette.datastructures import Headers, MutableHeaders
from starlette.requests import ClientDisconnect
from starlette.responses import Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from app.api.errors import error_response
from app.api.message_sizes import refuse_long_messages
from app.errors import InvalidInput, PayloadTooLarge, ThreadkeepError
from app.services.accounts.limits import Limits
from app.services.problems import path_text

MAX_DEPTH = 200
# A body of this size takes a few milliseconds to check, which other requests would have to wait for.
_CHECK_IN_THREAD_BYTES = 256 * 1024
# A sender that does not read before it has sent everything would see nothing but a connection reset, so the
# rest of a body that was refused is still taken off its hands, up to here.
_DRAINED_BYTES = 64 * 1024 * 1024
_DRAINED_SECONDS = 3.0
_WITHOUT_BODY = frozenset({"GET", "HEAD", "OPTIONS"})
_NOT_JSON = ("multipart/", "application/octet-stream")
_LONE_SURROGATE = re.compile("[\ud800-\udfff]")
_SURROGATE_ESCAPE = re.compile(rb"\\u[dD][89a-fA-F]")

Path = tuple[str | int, ...]


class BodyChecks:
    """ASGI middleware. A refused request gets its 413 or 422 here; an accepted one is passed on with its whole body.

    ``max_bytes`` is the size of the largest body that is accepted, whether or not its length is announced.
    """

    def __init__(self, app: ASGIApp, max_bytes: int) -> None:
        self._app = app
        self._max_bytes = max_bytes

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        try:
            _check_address(scope)
            body = None if scope["method"] in _WITHOUT_BODY else await self._checked_body(scope, receive)
        except ClientDisconnect:
            return
        except PayloadTooLarge as error:
            await refuse_unread(error_response(error), receive, send)
            return
        except ThreadkeepError as error:
            await error_response(error)(scope, receive, send)
            return
        if body:
            _call_it_json(scope)
        await self._app(scope, receive if body is None else _replayed(body, receive), send)

    async def _checked_body(self, scope: Scope, receive: Receive) -> bytes:
        headers = Headers(scope=scope)
        self._check_announced(headers)
        body = await self._read(receive)
        if body and _is_json(headers):
            limits: Limits = scope["app"].state.services.limits
            if len(body) > _CHECK_IN_THREAD_BYTES:
                await asyncio.to_thread(check_json, body, limits.message_bytes)
            else:
                check_json(body, limits.message_bytes)
        return body

    def _check_announced(self, headers: Headers) -> None:
        announced = headers.get("content-length", "")
        if announced.isdecimal() and int(announced) > self._max_bytes:
            raise self._too_large()

    async def _read(self, receive: Receive) -> bytes:
        chunks, size = [], 0
        while True:
            message = await receive()
            if message["type"] == "http.disconnect":
                raise ClientDisconnect
            chunk = message.get("body", b"")
            size += len(chunk)
            if size > self._max_bytes:
                raise self._too_large()
            chunks.append(chunk)
            if not message.get("more_body"):
                return b"".join(chunks)

    def _too_large(self) -> PayloadTooLarge:
        return PayloadTooLarge(f"body: larger than {self._max_bytes} bytes")


def check_json(body: bytes, message_bytes: int | None = None) -> None:
    """Raises InvalidInput, naming the position or the path, when ``body`` is not JSON that can be kept.

    Refused beside what is not JSON: numbers that are none, NUL characters and lone surrogates in any text, and
    more than ``MAX_DEPTH`` levels. Raises PayloadTooLarge for a message of more than ``message_bytes``.
    """
    try:
        value = orjson.loads(body)
    except orjson.JSONDecodeError as error:
        _refuse_lone_surrogates(body)
        raise InvalidInput(f"body: is not valid JSON: {error}") from None
    _check_depth(value)
    if message_bytes is not None and len(body) > message_bytes:
        refuse_long_messages(value, message_bytes)
    if rb"\u0000" in body:
        for path, text in _texts(value):
            if "\0" in text:
                raise InvalidInput(f"{path_text(path)}: must not contain NUL characters")


def _refuse_lone_surrogates(body: bytes) -> None:
    """The parser only knows the position of the first; people need the field."""
    if not _SURROGATE_ESCAPE.search(body):
        return
    try:
        value = json.loads(body)
    except (ValueError, RecursionError):
        return
    for path, text in _texts(value):
        if _LONE_SURROGATE.search(text):
            raise InvalidInput(f"{path_text(path)}: must not contain half a surrogate pair")


def _check_depth(value: Any) -> None:
    level, depth = [value], 0
    while level:
        depth += 1
        if depth > MAX_DEPTH:
            raise InvalidInput(f"body: is nested in more than {MAX_DEPTH} levels")
        level = [
            item
            for container in level
            if isinstance(container, (dict, list))
            for item in (container.values() if isinstance(container, dict) else container)
            if isinstance(item, (dict, list))
        ]


def _texts(value: Any) -> Iterable[tuple[Path, str]]:
    """Every text in a JSON value with its path; for a key, the path of its object. Not recursive on purpose."""
    todo: list[tuple[Path, Any]] = [(("body",), value)]
    while todo:
        path, item = todo.pop()
        match item:
            case str():
                yield path, item
            case dict():
                yield from ((path, key) for key in item)
                todo.extend(((*path, key), inner) for key, inner in item.items())
            case list():
                todo.extend(((*path, index), inner) for index, inner in enumerate(item))


def _check_address(scope: Scope) -> None:
    if "\0" in scope["path"]:
        raise InvalidInput("path: must not contain NUL characters")
    for name, value in parse_qsl(scope["query_string"].decode("latin-1"), keep_blank_values=True):
        if "\0" in name or "\0" in value:
            raise InvalidInput(f"query.{name.replace(chr(0), '')}: must not contain NUL characters")


def _is_json(headers: Headers) -> bool:
    """Whether the body is to be read as JSON: whatever says it is something else, or says nothing, may be JSON.

    Raises InvalidInput for such a body when a browser sends it: a page of any origin can make a browser post a body
    that claims not to be JSON, while for JSON the browser asks first.
    """
    kind = headers.get("content-type", "").partition(";")[0].strip().lower()
    if kind == "application/json" or kind.endswith("+json"):
        return True
    if kind.startswith(_NOT_JSON):
        return False
    if "origin" in headers:
        raise InvalidInput(f"header.content-type: must be application/json, got {kind or 'nothing'}")
    return True


def _call_it_json(scope: Scope) -> None:
    if _is_json(Headers(scope=scope)):
        MutableHeaders(scope=scope)["content-type"] = "application/json"


def _replayed(body: bytes, receive: Receive) -> Receive:
    given = False

    async def replay() -> Message:
        nonlocal given
        if given:
            return await receive()
        given = True
        return {"type": "http.request", "body": body, "more_body": False}

    return replay


async def refuse_unread(response: Response, receive: Receive, send: Send) -> None:
    """Answer at once, and close the connection only after the sender had time to read the answer."""
    response.headers["Connection"] = "close"
    await send(
        {"type": "http.response.start", "status": response.status_code, "headers": response.raw_headers}
    )
    await send({"type": "http.response.body", "body": response.body, "more_body": True})
    with suppress(TimeoutError):
        await asyncio.wait_for(_drain(receive), _DRAINED_SECONDS)
    await send({"type": "http.response.body", "body": b"", "more_body": False})


async def _drain(receive: Receive) -> None:
    left = _DRAINED_BYTES
    while left > 0:
        message = await receive()
        left -= len(message.get("body", b""))
        if message["type"] == "http.disconnect" or not message.get("more_body"):
            return
