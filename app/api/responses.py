"""Answers of the API: one JSON encoder for all of them, which understands messages and states."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import suppress
from typing import Any

from starlette.responses import JSONResponse, Response, StreamingResponse
from starlette.types import Receive, Scope, Send

from app.errors import InvalidInput, ShuttingDown
from app.serialization import dumps


class Json(JSONResponse):
    """A JSON answer of any value that ``app.serialization.dumps`` takes; pydantic does not see it again."""

    def render(self, content: Any) -> bytes:
        return dumps(content)


class WatchedStream(StreamingResponse):
    """A stream that says when its client went away before the end.

    The generator cannot tell: while bytes wait to be sent it is not running, and is closed whenever it is collected.

    When this process goes down, the connection is cut: an answer that ends in order looks complete, while after a
    broken one clients ask again at its ``Location``.
    """

    def __init__(
        self, content: AsyncIterator[bytes], *, on_leave: Callable[[], None] | None, **options: Any
    ) -> None:
        super().__init__(self._whole(content), **options)
        self._on_leave = on_leave
        self._complete = False

    async def _whole(self, content: AsyncIterator[bytes]) -> AsyncIterator[bytes]:
        async for chunk in content:
            yield chunk
        self._complete = True

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        try:
            with suppress(ShuttingDown):
                await super().__call__(scope, receive, send)
        finally:
            if self._on_leave and not self._complete:
                self._on_leave()


def chosen(item: dict[str, Any], select: Sequence[str] | None, where: str) -> dict[str, Any]:
    """The fields of ``item`` that ``select`` names, all without one. Raises InvalidInput for a field it has not."""
    if not select:
        return item
    for name in select:
        if name not in item:
            raise InvalidInput(f"{where}: there is no field {name!r}; known: {', '.join(item)}")
    return {name: item[name] for name in select}


def no_content(status_code: int = 204) -> Response:
    """An empty answer: 204 done, or 202 accepted."""
    return Response(status_code=status_code)
