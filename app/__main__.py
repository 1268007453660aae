"""The command line: ``python -m app serve|worker|migrate|keys|erase|bench``."""

from __future__ import annotations

import argparse
import asyncio
import errno
import os
import signal
import socket
import sys
from collections.abc import AsyncIterator, Coroutine, Iterator, Sequence
from contextlib import asynccontextmanager, contextmanager, suppress
from ipaddress import ip_address
from pathlib import Path
from typing import Any

import uvicorn
import uvloop

from app import __version__
from app.api.door import Door
from app.bench.command import add_bench, bench
from app.config import Overrides, Settings, load_settings
from app.erase import add_erase, erase
from app.errors import ConfigError, DatabaseError, InvalidInput, NotFound, ThreadBusy
from app.keys import add_keys, keys
from app.main import create_app, open_core, prepared_database
from app.redaction import SHAPES, Redactor
from app.report import startup_report
from app.telemetry import set_up_logging, set_up_tracing

EXIT_FAILURE = 1
EXIT_CONFIG = 2
# How long open requests may take after SIGTERM before their connections are cut; streams end by themselves.
GRACE_SECONDS = 5
# How long a connection without a request stays open. Longer than clients and proxies keep theirs (httpx, and with it
# the official client: 5 s, which is uvicorn's default; load balancers: 60 s): a server that closes first cuts off
# requests that are on their way.
KEEP_ALIVE_SECONDS = 75


class Server(uvicorn.Server):
    """Leaves the signals to us: uvicorn would end the process by them when the requests are done, while there are
    still runs to hand back and a database to stop."""

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield


def main(argv: Sequence[str] | None = None) -> int:
    """Run a command. Returns the exit status: 0, 1 (it cannot work), 2 (the configuration or the call is wrong), 128
    and the signal for a command that was told to stop before it was done."""
    arguments = _parser().parse_args(argv)
    try:
        settings = load_settings(
            arguments.config,
            os.environ,
            Overrides(
                host=getattr(arguments, "host", None),
                port=getattr(arguments, "port", None),
                data_dir=arguments.data_dir,
            ),
        )
        redactor = Redactor(settings.secrets.shapes or SHAPES)
        set_up_logging(settings.logging.level, settings.logging.format, redactor)
        with _tracing(settings), asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
            return runner.run(_until_told(_COMMANDS[arguments.command](settings, arguments)))
    except (ConfigError, InvalidInput, NotFound) as error:
        return _fail(EXIT_CONFIG, str(error))
    except (DatabaseError, ThreadBusy) as error:
        return _fail(EXIT_FAILURE, str(error))
    except OSError as error:
        return _fail(EXIT_FAILURE, f"{error.strerror or error}: {error.filename or ''}".rstrip(": "))
    except KeyboardInterrupt:
        return 128 + signal.SIGINT


@contextmanager
def _tracing(settings: Settings) -> Iterator[None]:
    """Spans are sent for as long as the block runs, if the configuration says where to."""
    wanted = settings.tracing
    if wanted.endpoint is None:
        yield
        return
    headers = wanted.sent_headers(os.environ)
    provider = set_up_tracing(wanted.endpoint, headers, wanted.service_name, __version__, wanted.sample_ratio)
    try:
        yield
    finally:
        provider.shutdown()


async def _until_told(command: Coroutine[Any, Any, None]) -> int:
    """Cancels the command at the first SIGINT or SIGTERM; a second one ends the process at once.

    Services end well when they are cancelled; a command that lets the cancellation through was not done.
    """
    told: list[int] = []
    task = asyncio.ensure_future(command)

    def stop(number: int) -> None:
        if told:
            _fail(0, "stopped at once; what was under way is taken up at the next start")
            os._exit(128 + number)
        told.append(number)
        task.cancel()

    for number in (signal.SIGINT, signal.SIGTERM):
        asyncio.get_running_loop().add_signal_handler(number, stop, number)
    try:
        await task
    except asyncio.CancelledError:
        if not told:
            raise
        return 128 + told[0]
    return 0


async def serve(settings: Settings, arguments: argparse.Namespace) -> None:
    """HTTP, and the runs too unless ``--no-worker``, until cancelled."""
    with _listen(settings.server.host, settings.server.port) as listener:
        _refuse_exposure(settings, listener.getsockname()[0])
        app = create_app(settings, dict(os.environ), work=not arguments.no_worker)
        door = Door()
        # The lifespan is outside uvicorn's own handling, so that what goes wrong there ends the process with one clear
        # line; and the port is open all the while, so that nobody takes a long migration for a dead process.
        server = Server(
            uvicorn.Config(
                door,
                lifespan="off",
                log_config=None,
                # That it runs says nothing yet: what is ready, our own report tells.
                log_level="warning",
                access_log=False,
                timeout_keep_alive=KEEP_ALIVE_SECONDS,
                timeout_graceful_shutdown=GRACE_SECONDS,
            )
        )
        async with _answering(server, listener) as serving, app.router.lifespan_context(app):
            door.open(app)
            _say(startup_report(app.state.core, listener.getsockname()))
            try:
                await asyncio.shield(serving)
            except asyncio.CancelledError:
                # uvicorn waits for open requests, so streams have to end by themselves.
                app.state.core.begin_stop()
                server.should_exit = True
                await serving


@asynccontextmanager
async def _answering(server: Server, listener: socket.socket) -> AsyncIterator[asyncio.Task[None]]:
    serving = asyncio.create_task(server.serve(sockets=[listener]))
    try:
        yield serving
    finally:
        server.should_exit = True
        await serving


async def worker(settings: Settings, arguments: argparse.Namespace) -> None:
    """Execute runs until cancelled."""
    async with open_core(settings, dict(os.environ)) as core:
        _say(startup_report(core, None))
        with suppress(asyncio.CancelledError):
            await asyncio.Event().wait()


async def run_migrations(settings: Settings, arguments: argparse.Namespace) -> None:
    """Bring the database up to date and stop."""
    async with prepared_database(settings) as database:
        _say(f"Database is up to date: {database.label}")


_COMMANDS = {
    "serve": serve,
    "worker": worker,
    "migrate": run_migrations,
    "keys": keys,
    "erase": erase,
    "bench": bench,
}


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m app", description="Threadkeep")
    commands = parser.add_subparsers(dest="command", required=True)
    common = argparse.ArgumentParser(add_help=False)
    common.add_argument("--config", type=Path, help="config.yaml to read (THREADKEEP_CONFIG)")
    common.add_argument(
        "--data-dir", type=Path, help="folder of database and workspaces (THREADKEEP_DATA_DIR)"
    )
    serving = commands.add_parser("serve", parents=[common], help="the HTTP service")
    serving.add_argument("--host", help="address to listen on (THREADKEEP_HOST)")
    serving.add_argument("--port", type=int, help="port to listen on, 0 for any (THREADKEEP_PORT)")
    serving.add_argument("--no-worker", action="store_true", help="leave the runs to worker processes")
    commands.add_parser("worker", parents=[common], help="executes runs, without HTTP")
    commands.add_parser("migrate", parents=[common], help="brings the database up to date and stops")
    add_keys(commands, common)
    add_erase(commands, common)
    add_bench(commands, common)
    return parser


def _listen(host: str, port: int) -> socket.socket:
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


def _refuse_exposure(settings: Settings, address: str) -> None:
    """Raises ConfigError when others could reach a service that asks nobody who they are."""
    open_to_all = settings.auth.type == "none" and not settings.server.allow_unauthenticated
    if open_to_all and not ip_address(address).is_loopback:
        raise ConfigError(
            f"Others can reach {settings.server.host}, and there are no accounts (auth.type is none): set "
            "auth.type to api_key or jwt, or say server.allow_unauthenticated: true "
            "(THREADKEEP_ALLOW_UNAUTHENTICATED=1) where something else keeps strangers out"
        )


def _say(text: str) -> None:
    if sys.stdout is None:
        return
    try:
        sys.stdout.write(text + "\n")
        sys.stdout.flush()
    except OSError:
        # Who reads it is gone (``| head``); that is no reason to stop, nor for the interpreter to complain at the end.
        sys.stdout = None


def _fail(status: int, text: str) -> int:
    sys.stderr.write(f"threadkeep: {text}\n")
    return status


if __name__ == "__main__":
    sys.exit(main())
