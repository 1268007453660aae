"""Whoever asks is known before anything else is looked at: their key or token, their origin, how often they ask."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from starlette.datastructures import Headers, MutableHeaders
from starlette.responses import Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send
from starlette.websockets import WebSocket

from app.api.body import refuse_unread
from app.api.errors import DATABASE_GONE, error_response
from app.api.origins import refuse_foreign_host, refuse_foreign_origin
from app.config import ServerSettings
from app.errors import Forbidden, InvalidInput, ThreadkeepError
from app.services.accounts.limits import Limits, Window
from app.services.accounts.service import Authenticator, Caller, Shown, check_owner

ACT_FOR = "x-threadkeep-owner"
# What says nothing of anybody. Everything else needs to know who asks, also what does not exist.
OPEN_PATHS = frozenset({"/", "/ok", "/health", "/ready", "/info", "/openapi.json", "/docs"})
_READING = frozenset({"GET", "HEAD", "OPTIONS"})


class Admission:
    """ASGI middleware for HTTP and WebSockets alike. A route finds the ``Caller`` in its scope.

    ``prefixes`` are those that the open paths are served under, ``open_folders`` paths that begin what is open as well.
    """

    def __init__(
        self,
        app: ASGIApp,
        settings: ServerSettings,
        prefixes: Sequence[str],
        open_folders: Sequence[str] = (),
    ) -> None:
        self._app = app
        self._settings = settings
        self._open = {f"{prefix}{path}" for prefix in ("", *prefixes) for path in OPEN_PATHS}
        self._open_folders = tuple(open_folders)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] not in ("http", "websocket") or self._is_open(scope):
            await self._app(scope, receive, send)
            return
        services = scope["app"].state.services
        try:
            caller = await self._caller(scope, services.accounts)
            limits: Limits = services.limits
            window = await limits.request(caller.subject)
        except (ThreadkeepError, *DATABASE_GONE) as error:
            await _refuse(error_response(error), scope, receive, send)
            return
        scope["caller"] = caller
        await self._app(scope, receive, _with_window(send, window) if window else send)

    def _is_open(self, scope: Scope) -> bool:
        path: str = scope["path"]
        reading = scope["type"] == "http" and scope["method"] in _READING
        return reading and (path in self._open or path.startswith(self._open_folders))

    async def _caller(self, scope: Scope, accounts: Authenticator) -> Caller:
        headers = Headers(scope=scope)
        if not accounts.required:
            refuse_foreign_host(headers, self._settings.allowed_hosts)
        if scope["type"] == "websocket" or scope["method"] not in _READING:
            refuse_foreign_origin(headers, self._settings.cors_origins)
        caller = await accounts.caller(shown_in(headers))
        return acting_for(caller, headers)


def shown_in(headers: Mapping[str, str]) -> Shown:
    """The key or token of a request. There is no other place for one: addresses are written into logs."""
    scheme, _, rest = headers.get("authorization", "").partition(" ")
    bearer = rest.strip() if scheme.lower() == "bearer" else ""
    return Shown(headers.get("x-api-key") or None, bearer or None)


def acting_for(caller: Caller, headers: Mapping[str, str]) -> Caller:
    """The caller, or the owner whom an administrator names. Raises Forbidden for anybody else who names another."""
    named = headers.get(ACT_FOR)
    if named is None:
        return caller
    try:
        owner = check_owner(named.encode("latin-1").decode(), f"header.{ACT_FOR}")
    except UnicodeDecodeError:
        raise InvalidInput(f"header.{ACT_FOR}: must be UTF-8") from None
    if not caller.admin and owner != caller.owner:
        raise Forbidden("Only an administrator may act for another owner", code="admin_required")
    return Caller(owner, caller.admin, caller.subject)


def _with_window(send: Send, window: Window) -> Send:
    async def told(message: Message) -> None:
        if message["type"] == "http.response.start":
            headers = MutableHeaders(scope=message)
            headers["X-RateLimit-Limit"] = str(window.limit)
            headers["X-RateLimit-Remaining"] = str(window.remaining)
            headers["X-RateLimit-Reset"] = str(window.reset_s)
        await send(message)

    return told


async def _refuse(response: Response, scope: Scope, receive: Receive, send: Send) -> None:
    if scope["type"] == "websocket":
        await receive()
        await WebSocket(scope, receive, send).send_denial_response(response)
    elif scope["method"] in _READING:
        await response(scope, receive, send)
    else:
        await refuse_unread(response, receive, send)
