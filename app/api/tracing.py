"""A span for every request, as part of the trace that its caller named."""

from __future__ import annotations

from opentelemetry.trace import SpanKind
from starlette.datastructures import Headers
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from app.telemetry import span

_TRACE_HEADERS = ("traceparent", "tracestate")


class Tracing:
    """ASGI middleware. The span is named by the route's template, so that ids do not make names."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        headers = Headers(scope=scope)
        parent = {name: headers[name] for name in _TRACE_HEADERS if name in headers}
        method = scope["method"]
        with span(method, {"http.request.method": method}, kind=SpanKind.SERVER, parent=parent) as current:

            async def watched(message: Message) -> None:
                if message["type"] == "http.response.start":
                    current.set_attribute("http.response.status_code", message["status"])
                await send(message)

            await self._app(scope, receive, watched)
            if route := getattr(scope.get("route"), "path", None):
                current.update_name(f"{method} {route}")
                current.set_attribute("http.route", route)
