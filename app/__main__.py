"""The command line: ``python -m app serve|worker|migrate|bench``."""

from __future__ import annotations

import argparse
import asyncio
import errno
import os
import signal
import socket
import sys
from collections.abc import Sequence
from pathlib import Path
from types import FrameType

import uvicorn

from app.bench.command import add_bench, bench
from app.config import Overrides, Settings, load_settings
from app.errors import ConfigError, DatabaseError
from app.main import Core, create_app, open_core, prepared_database
from app.report import startup_report
from app.telemetry import set_up_logging

EXIT_FAILURE = 1
EXIT_CONFIG = 2
# How long open requests may take after SIGTERM before their connections are cut; streams end by themselves.
GRACE_SECONDS = 5


class Server(uvicorn.Server):
    """Ends the streams of the process as soon as it is told to stop; uvicorn would wait for them.

    Nor does it end the process by the signal when the requests are done, as uvicorn does: there are still runs to
    hand back and a database to stop.
    """

    def __init__(self, config: uvicorn.Config, core: Core) -> None:
        super().__init__(config)
        self._core = core
        self._loop = asyncio.get_running_loop()

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        self.force_exit = self.should_exit and sig == signal.SIGINT
        self.should_exit = True
        self._loop.call_soon_threadsafe(self._core.close_streams)


def main(argv: Sequence[str] | None = None) -> int:
    """Run a command. Returns the exit status: 0, 1 (it cannot work), 2 (the configuration or the call is wrong)."""
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
        set_up_logging(settings.logging.level, settings.logging.format)
        asyncio.run(_COMMANDS[arguments.command](settings, arguments))
    except ConfigError as error:
        return _fail(EXIT_CONFIG, str(error))
    except DatabaseError as error:
        return _fail(EXIT_FAILURE, str(error))
    except OSError as error:
        return _fail(EXIT_FAILURE, f"{error.strerror or error}: {error.filename or ''}".rstrip(": "))
    except KeyboardInterrupt:
        return 130
    return 0


async def serve(settings: Settings, arguments: argparse.Namespace) -> None:
    """HTTP, and the runs too unless ``--no-worker``."""
    with _listen(settings.server.host, settings.server.port) as listener:
        app = create_app(settings, dict(os.environ), work=not arguments.no_worker)
        # Outside uvicorn's own handling, so that what goes wrong here ends the process with one clear line.
        async with app.router.lifespan_context(app):
            config = uvicorn.Config(
                app,
                lifespan="off",
                log_config=None,
                access_log=False,
                timeout_graceful_shutdown=GRACE_SECONDS,
            )
            # Whoever reads that it is ready is not refused: the connection waits until the server runs.
            listener.listen(config.backlog)
            _say(startup_report(app.state.core, listener.getsockname()))
            await Server(config, app.state.core).serve(sockets=[listener])


async def worker(settings: Settings, arguments: argparse.Namespace) -> None:
    """Execute runs until told to stop."""
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    for name in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(name, stop.set)
    async with open_core(settings, dict(os.environ)) as core:
        _say(startup_report(core, None))
        await stop.wait()


async def run_migrations(settings: Settings, arguments: argparse.Namespace) -> None:
    """Bring the database up to date and stop."""
    async with prepared_database(settings) as database:
        _say(f"Database is up to date: {database.label}")


_COMMANDS = {"serve": serve, "worker": worker, "migrate": run_migrations, "bench": bench}


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


def _say(text: str) -> None:
    sys.stdout.write(text + "\n")
    sys.stdout.flush()


def _fail(status: int, text: str) -> int:
    sys.stderr.write(f"threadkeep: {text}\n")
    return status


if __name__ == "__main__":
    sys.exit(main())
