"""Counts and times every request, by route."""

from __future__ import annotations

import time

from prometheus_client import CollectorRegistry, Counter, Histogram
from starlette.types import ASGIApp, Message, Receive, Scope, Send

# Waiting for a run and following its events take as long as the run does.
SECONDS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 120, 600)
_NO_ROUTE = "none"
_METHODS = frozenset({"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"})


class HttpMetrics:
    """The figures of HTTP. Routes are templates, so that ids do not become labels."""

    def __init__(self, registry: CollectorRegistry) -> None:
        self._requests = Counter(
            "threadkeep_http_requests_total",
            "Requests answered, by route template and status",
            ["method", "route", "status"],
            registry=registry,
        )
        self._seconds = Histogram(
            "threadkeep_http_request_seconds",
            "Seconds until the last byte of the answer",
            ["method", "route"],
            buckets=SECONDS,
            registry=registry,
        )

    def observe(self, method: str, route: str, status: int, seconds: float) -> None:
        known = method if method in _METHODS else "other"
        self._requests.labels(known, route, str(status)).inc()
        self._seconds.labels(known, route).observe(seconds)


class Metering:
    """ASGI middleware. Status 0 stands for an answer that never began, because the client had left."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        status, begun = 0, time.perf_counter()

        async def watched(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
            await send(message)

        try:
            await self._app(scope, receive, watched)
        finally:
            metrics: HttpMetrics = scope["app"].state.services.http_metrics
            metrics.observe(scope["method"], _route(scope), status, time.perf_counter() - begun)


def _route(scope: Scope) -> str:
    route = scope.get("route")
    return getattr(route, "path", None) or _NO_ROUTE
