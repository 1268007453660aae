"""How a command answers HTTP while it works: a port that is open from the beginning to the end."""

from __future__ import annotations

import asyncio
import errno
import socket
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from ipaddress import ip_address

import uvicorn
from starlette.types import ASGIApp

from app.config import Settings
from app.errors import ConfigError

# How long open requests may take after SIGTERM before their connections are cut; streams end by themselves.
GRACE_SECONDS = 5
# How long a connection without a request stays open. Longer than clients and proxies keep theirs (httpx, and with it
# the official client: 5 s, which is uvicorn's default; load balancers: 60 s): a server that closes first cuts off
# requests that are on their way.
KEEP_ALIVE_SECONDS = 75


class Server(uvicorn.Server):
    """Leaves the signals to us: uvicorn would end the process by them when the requests are done, while there are
    still runs to hand back and a database to stop."""

    def __init__(self, app: ASGIApp) -> None:
        super().__init__(
            uvicorn.Config(
                app,
                # The lifespan is outside uvicorn's own handling, so that what goes wrong there ends the process with
                # one clear line.
                lifespan="off",
                log_config=None,
                # That it runs says nothing yet: what is ready, our own report tells.
                log_level="warning",
                access_log=False,
                timeout_keep_alive=KEEP_ALIVE_SECONDS,
                timeout_graceful_shutdown=GRACE_SECONDS,
            )
        )

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield


def refuse_exposure(settings: Settings, address: str) -> None:
    """Raises ConfigError when others could reach a service that asks nobody who they are."""
    open_to_all = settings.auth.type == "none" and not settings.server.allow_unauthenticated
    if open_to_all and not ip_address(address).is_loopback:
        raise ConfigError(
            f"Others can reach {settings.server.host}, and there are no accounts (auth.type is none): set "
            "auth.type to api_key or jwt, or say server.allow_unauthenticated: true "
            "(THREADKEEP_ALLOW_UNAUTHENTICATED=1) where something else keeps strangers out"
        )


@asynccontextmanager
async def answering(server: Server, listener: socket.socket) -> AsyncIterator[asyncio.Task[None]]:
    """The server answers for as long as the block runs; yields the task that does."""
    serving = asyncio.create_task(server.serve(sockets=[listener]))
    try:
        yield serving
    finally:
        server.should_exit = True
        await serving


def listen(host: str, port: int) -> socket.socket:
    """A bound socket, of which nobody is told yet. Raises OSError with a sentence that says what to do."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    listener = socket.socket(family, socket.SOCK_STREAM)
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listener.bind((host, port))
    except OSError as error:
        listener.close()
        hint = "; choose another with --port" if error.errno == errno.EADDRINUSE else ""
        raise OSError(error.errno, f"Cannot listen on {host}:{port}: {error.strerror}{hint}") from None
    return listener
