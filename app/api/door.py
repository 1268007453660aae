"""What a process answers before it can do anything: that it lives, and that it is not ready yet."""

from __future__ import annotations

from starlette.responses import JSONResponse, Response
from starlette.types import ASGIApp, Receive, Scope, Send

PREFIX = "/api"
RETRY_AFTER_S = 2
_ALIVE = frozenset({"/ok", "/health"})


class Door:
    """ASGI application in front of another one, which is not there from the beginning: its database is being started
    or migrated. Until ``open`` everything but the question whether the process lives is a 503."""

    def __init__(self) -> None:
        self._app: ASGIApp | None = None

    def open(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if self._app is not None:
            await self._app(scope, receive, send)
        elif scope["type"] == "http":
            await _answer(scope["path"])(scope, receive, send)
        else:
            await send({"type": "websocket.close", "code": 1013})


def _answer(path: str) -> Response:
    if path.removeprefix(PREFIX) in _ALIVE:
        return JSONResponse({"status": "ok", "ok": True})
    return JSONResponse(
        {"detail": "Not ready: the service is starting", "code": "not_ready"},
        503,
        {"Retry-After": str(RETRY_AFTER_S)},
    )
