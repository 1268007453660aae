"""``/api/langgraph/…`` is ``/api/…``: where DeerFlow's front end looks for the LangGraph part of its backend."""

from __future__ import annotations

from starlette.types import ASGIApp, Receive, Scope, Send

ALIAS = "/api/langgraph"
PREFIX = "/api"


class Alias:
    """ASGI middleware that gives a request under the alias the path that it stands for, before others see it."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        path: str = scope.get("path", "")
        if path.startswith(f"{ALIAS}/"):
            raw: bytes = scope.get("raw_path") or path.encode()
            scope = {
                **scope,
                "path": PREFIX + path.removeprefix(ALIAS),
                "raw_path": PREFIX.encode() + raw.removeprefix(ALIAS.encode()),
            }
        await self._app(scope, receive, send)
