"""What says whether the service is there, ready, and how it fares. Served under ``/`` and under ``/api``."""

from __future__ import annotations

from importlib.metadata import version

from fastapi import APIRouter, Request
from prometheus_client import CONTENT_TYPE_LATEST, generate_latest
from starlette.responses import HTMLResponse, PlainTextResponse, Response

from app import __version__
from app.api.deps import Admin, Injected
from app.api.openapi import PAGE_HEADERS, page
from app.api.responses import Json
from app.errors import DatabaseError

router = APIRouter(tags=["system"])

# What LangGraph's clients and its studio look at before they call.
_FLAGS = {
    "assistants": True,
    "crons": False,
    "langsmith": False,
    "langsmith_tracing_replicas": False,
}


@router.get("/ok")
async def ok() -> Json:
    return Json({"ok": True})


@router.get("/health")
async def health() -> Json:
    """The process lives. Says nothing of the database: a restart would not mend that."""
    return Json({"status": "ok"})


@router.get("/ready")
async def ready(injected: Injected) -> Json:
    """Requests can be served: the database answers and is migrated. Else 503."""
    if problem := await injected.check_ready():
        raise DatabaseError(f"Not ready: {problem}", code="not_ready")
    return Json({"status": "ready"})


@router.get("/info")
async def info() -> Json:
    return Json(
        {
            "name": "threadkeep",
            "version": __version__,
            "langgraph_py_version": version("langgraph"),
            "flags": _FLAGS,
            "metadata": {},
        }
    )


@router.get("/openapi.json", include_in_schema=False)
async def openapi(request: Request) -> Json:
    return Json(request.app.openapi())


@router.get("/docs", include_in_schema=False)
async def docs(request: Request) -> Response:
    """The same for people."""
    return HTMLResponse(page(request.app.openapi()), headers=PAGE_HEADERS)


@router.get("/metrics", response_class=PlainTextResponse)
async def metrics(injected: Injected, admin: Admin) -> Response:
    """Prometheus' text format. For administrators, where there are accounts."""
    await injected.gauges.refresh()
    return Response(generate_latest(injected.registry), media_type=CONTENT_TYPE_LATEST)
