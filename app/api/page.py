"""The chat page: static files that use the public API and nothing else."""

from __future__ import annotations

import os
from pathlib import Path

from fastapi import APIRouter, FastAPI
from starlette.responses import FileResponse, Response
from starlette.staticfiles import StaticFiles
from starlette.types import Scope

WEB = Path(__file__).resolve().parents[1] / "web"
HEADERS = {
    # No script, style or image from anywhere else, none written into the page, and nobody frames it.
    "Content-Security-Policy": (
        "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; "
        "base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
    ),
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Opener-Policy": "same-origin",
    # Asked for each time and answered with 304: a new version of the service is a new page at once.
    "Cache-Control": "no-cache",
}

router = APIRouter(include_in_schema=False)


@router.api_route("/", methods=["GET", "HEAD"])
async def page() -> FileResponse:
    """The page. What it shows is in the part of the address behind ``#``, which no server sees."""
    return FileResponse(WEB / "index.html", headers=HEADERS)


class PageFiles(StaticFiles):
    """The files of the page, with its rules."""

    def file_response(
        self,
        full_path: str | os.PathLike[str],
        stat_result: os.stat_result,
        scope: Scope,
        status_code: int = 200,
    ) -> Response:
        response = super().file_response(full_path, stat_result, scope, status_code)
        response.headers.update(HEADERS)
        return response


def install(app: FastAPI) -> None:
    """Serve the page and its files."""
    app.include_router(router)
    app.mount("/web", PageFiles(directory=WEB), name="web")
