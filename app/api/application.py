"""Puts routes and middleware together."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractAsyncContextManager

from fastapi import APIRouter, FastAPI
from starlette.middleware.cors import CORSMiddleware

from app import __version__
from app.api import (
    accounts,
    assistants,
    compaction,
    deerflow,
    drafts,
    errors,
    growth,
    memory,
    messages,
    models,
    openapi,
    page,
    pins,
    run_messages,
    runs,
    search,
    skills,
    state,
    stateless_runs,
    store,
    system,
    thread_commands,
    thread_events,
    thread_stream,
    threads,
    undo,
    usage,
)
from app.api.alias import Alias
from app.api.auth import ACT_FOR, Admission
from app.api.body import BodyChecks
from app.api.metering import Metering
from app.api.origins import LOOPBACK_ORIGINS
from app.api.request_id import RequestIds
from app.api.tracing import Tracing
from app.config import ServerSettings

PREFIX = "/api"
EXPOSED = (
    "Content-Location",
    "Location",
    "X-Pagination-Total",
    "X-Pagination-Next",
    "X-Request-Id",
    "Retry-After",
    "X-RateLimit-Limit",
    "X-RateLimit-Remaining",
    "X-RateLimit-Reset",
)
ALLOWED = (
    "content-type",
    "x-api-key",
    "authorization",
    "last-event-id",
    "prefer",
    "x-auth-scheme",
    "x-csrf-token",
    "x-request-id",
    ACT_FOR,
)

Lifespan = Callable[[FastAPI], AbstractAsyncContextManager[None]]


def build_app(settings: ServerSettings, lifespan: Lifespan | None) -> FastAPI:
    """The FastAPI application. ``lifespan`` provides ``app.state.services``."""
    app = FastAPI(
        title="Threadkeep",
        version=__version__,
        lifespan=lifespan,
        summary="LangGraph threads that never run out of context",
        # Its own spans would hold the query of a request, what people search for among it; ours do not.
        telemetry={"tracing": False, "metrics": False, "logs": False, "operation_spans": False},
        # FastAPI's own pages load their scripts from elsewhere.
        openapi_url=None,
    )
    errors.install(app)
    app.add_middleware(BodyChecks, max_bytes=settings.max_body_bytes)
    app.add_middleware(Admission, settings=settings, prefixes=[PREFIX], open_folders=["/web/"])
    app.add_middleware(
        CORSMiddleware,
        allow_origins=list(settings.cors_origins),
        allow_origin_regex=LOOPBACK_ORIGINS,
        allow_methods=["*"],
        allow_headers=list(ALLOWED),
        expose_headers=list(EXPOSED),
    )
    app.add_middleware(Tracing)
    app.add_middleware(Metering)
    app.add_middleware(RequestIds)
    app.add_middleware(Alias)
    resources = APIRouter()
    for module in (
        threads,
        state,
        runs,
        run_messages,
        stateless_runs,
        thread_stream,
        thread_commands,
        thread_events,
        usage,
        growth,
        deerflow,
        compaction,
        drafts,
        pins,
        undo,
        messages,
        search,
        assistants,
        memory,
        models,
        skills,
        accounts,
        store,
        system,
    ):
        resources.include_router(module.router)
    app.include_router(resources, prefix=PREFIX)  # given here, routes are worked out when first looked at
    app.include_router(system.router, include_in_schema=False)
    page.install(app)
    openapi.install(app, PREFIX)
    return app
