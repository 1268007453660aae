"""What a worker answers: whether it lives, whether it can work, how it fares. Nothing of the API."""

from __future__ import annotations

from fastapi import FastAPI

from app.api import errors, system
from app.api.auth import Admission
from app.api.request_id import RequestIds
from app.config import ServerSettings


def build_watch(settings: ServerSettings) -> FastAPI:
    """The application; ``app.state.services`` is for the caller to set. As at a gateway, metrics are for administrators
    where there are accounts."""
    app = FastAPI(
        openapi_url=None,
        telemetry={"tracing": False, "metrics": False, "logs": False, "operation_spans": False},
    )
    errors.install(app)
    app.add_middleware(Admission, settings=settings, prefixes=[])
    app.add_middleware(RequestIds)
    for path, answer in (("/health", system.health), ("/ready", system.ready), ("/metrics", system.metrics)):
        app.add_api_route(path, answer)
    return app
