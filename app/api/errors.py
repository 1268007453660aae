"""The one place where an error becomes a status: ``{"detail": "<sentence>", "code": "<stable word>"}``."""

from __future__ import annotations

import logging
from collections.abc import Mapping

import psycopg
from fastapi import FastAPI
from fastapi.exceptions import RequestValidationError
from psycopg_pool import PoolClosed, PoolTimeout, TooManyRequests
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect, Request
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from app.api.responses import Json
from app.errors import (
    AuthUnavailable,
    BadRequest,
    Conflict,
    DatabaseError,
    Forbidden,
    InvalidInput,
    ModelError,
    NotFound,
    PayloadTooLarge,
    RateLimited,
    ShuttingDown,
    SummaryGenerationError,
    SummaryTimeout,
    ThreadkeepError,
    Unauthorized,
)
from app.persistence.outage import is_outage
from app.services.problems import validation_detail
from app.telemetry import redact

_log = logging.getLogger(__name__)

# The nearest class in an error's ancestry decides; what is not here is a 500.
STATUS: Mapping[type[ThreadkeepError], int] = {
    InvalidInput: 422,
    BadRequest: 400,
    Unauthorized: 401,
    Forbidden: 403,
    NotFound: 404,
    Conflict: 409,
    PayloadTooLarge: 413,
    RateLimited: 429,
    # A model that cannot be used is the fault of what stands behind the gateway, not of the request.
    ModelError: 502,
    SummaryGenerationError: 502,
    SummaryTimeout: 504,
    AuthUnavailable: 503,
    DatabaseError: 503,
    ShuttingDown: 503,
}
RETRY_AFTER_S = 2
CHALLENGE = 'Bearer realm="threadkeep"'
_HTTP_CODES = {404: "not_found", 405: "method_not_allowed", 413: PayloadTooLarge.code}
DATABASE_GONE = (psycopg.OperationalError, psycopg.InterfaceError, PoolTimeout, PoolClosed, TooManyRequests)


def status_of(error: ThreadkeepError) -> int:
    """The HTTP status of an error of ours; 500 for one that no client can do anything about."""
    return next((STATUS[cls] for cls in type(error).__mro__ if cls in STATUS), 500)


def error_response(error: Exception) -> Json:
    """The answer to an error. What is not ours says nothing of itself: its text may hold anything."""
    match error:
        case RateLimited():
            return _answer(429, error.code, error.detail, {"Retry-After": str(error.retry_after_s)})
        case Unauthorized():
            return _answer(401, error.code, error.detail, {"WWW-Authenticate": CHALLENGE})
        case ThreadkeepError():
            status = status_of(error)
            # What goes wrong behind the gateway is told in words of others, who may repeat what they were sent.
            return _answer(status, error.code, redact(error.detail) if status >= 500 else error.detail)
        case RequestValidationError():
            return _answer(422, InvalidInput.code, validation_detail(error.errors()))
        case HTTPException():
            code = _HTTP_CODES.get(error.status_code, "http_error")
            return _answer(error.status_code, code, str(error.detail), error.headers)
        # Also behind an error of another library, such as the queue's.
        case _ if isinstance(error, DATABASE_GONE) or is_outage(error):
            return _answer(503, DatabaseError.code, "The database cannot be reached; try again in a moment")
        case psycopg.DataError():
            return _answer(422, InvalidInput.code, "A value of the request cannot be stored")
        case _:
            return _answer(500, ThreadkeepError.code, "Internal error; the log has it under this request id")


def install(app: FastAPI) -> None:
    """Make ``app`` answer every error in this form. Call it before any other middleware is added."""
    for cls in (ThreadkeepError, RequestValidationError, HTTPException, psycopg.DataError, *DATABASE_GONE):
        app.add_exception_handler(cls, _handle)
    app.add_middleware(CatchAll)


class CatchAll:
    """Answers 500 to what nobody expected.

    Starlette's own handler for this stands outside every other middleware, so that its answers would have no
    request id and no CORS headers.
    """

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        started = False

        async def watched(message: Message) -> None:
            nonlocal started
            started = True
            await send(message)

        try:
            await self._app(scope, receive, watched)
        except ClientDisconnect:
            _log.info("The client went away before its request was complete: %s", scope["path"])
        except Exception as error:
            # After the first byte there is no status to change: the server has to cut the connection.
            if started:
                raise
            if is_outage(error):
                _log.warning("%s %s: %s", scope["method"], scope["path"], _one_line(error))
            else:
                _log.exception("Unexpected error at %s %s", scope["method"], scope["path"])
            await error_response(error)(scope, receive, send)


async def _handle(request: Request, error: Exception) -> Json:
    response = error_response(error)
    if response.status_code >= 500:
        _log.warning("%s %s: %s", request.method, request.url.path, _one_line(error))
    return response


def _answer(status: int, code: str, detail: str, headers: Mapping[str, str] | None = None) -> Json:
    extra = {"Retry-After": str(RETRY_AFTER_S)} if status in (429, 503) else {}
    return Json({"detail": detail, "code": code}, status, headers={**extra, **(headers or {})})


def _one_line(error: Exception) -> str:
    return f"{type(error).__name__}: {' '.join(str(error).split())}"
