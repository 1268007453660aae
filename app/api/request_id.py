"""Every request has an id: the client's, or one of ours. It is on every answer and in every line of the log."""

from __future__ import annotations

import re

from starlette.datastructures import Headers, MutableHeaders
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from app.services.ids import new_id
from app.telemetry import log_scope

HEADER = "x-request-id"
_ALLOWED = re.compile(r"[\w.:-]{1,128}", re.ASCII)


class RequestIds:
    """ASGI middleware; to be the outermost one of ours, so that answers of the others carry the id too."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] not in ("http", "websocket"):
            await self._app(scope, receive, send)
            return
        given = Headers(scope=scope).get(HEADER, "")
        request_id = given if _ALLOWED.fullmatch(given) else new_id()

        async def with_id(message: Message) -> None:
            if message["type"] == "http.response.start":
                MutableHeaders(scope=message)[HEADER] = request_id
            await send(message)

        with log_scope(request_id=request_id):
            await self._app(scope, receive, with_id)
