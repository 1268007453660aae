"""How a command is run: settings, logs and traces first, then the command, until it is done or told to stop."""

from __future__ import annotations

import argparse
import asyncio
import gc
import os
import signal
import sys
from collections.abc import Awaitable, Callable, Coroutine, Iterator
from contextlib import contextmanager
from typing import Any

import uvloop

from app import __version__
from app.config import Overrides, Settings, load_settings
from app.errors import ConfigError, DatabaseError, InvalidInput, NotFound, ThreadBusy
from app.loading import load
from app.redaction import SHAPES, Redactor
from app.telemetry import set_up_logging, set_up_tracing

EXIT_FAILURE = 1
EXIT_CONFIG = 2

_COMMANDS = {
    "serve": "app.commands.serve:serve",
    "worker": "app.commands.worker:worker",
    "migrate": "app.commands.migrate:migrations",
    "keys": "app.commands.keys:keys",
    "erase": "app.commands.erase:erase",
    "bench": "app.bench.command:bench",
}


def run(arguments: argparse.Namespace) -> int:
    """Run the command that the arguments name. Returns the exit status, as ``python -m app`` ends with it."""
    try:
        settings = load_settings(
            arguments.config,
            os.environ,
            Overrides(
                host=getattr(arguments, "host", None),
                port=getattr(arguments, "port", None),
                worker_port=getattr(arguments, "worker_port", None),
                data_dir=arguments.data_dir,
            ),
        )
        redactor = Redactor(settings.secrets.shapes or SHAPES)
        set_up_logging(settings.logging.level, settings.logging.format, redactor)
        command = _loaded(arguments.command)
        with _tracing(settings), asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
            return runner.run(_until_told(command(settings, arguments)))
    except (ConfigError, InvalidInput, NotFound) as error:
        return _fail(EXIT_CONFIG, str(error))
    except (DatabaseError, ThreadBusy) as error:
        return _fail(EXIT_FAILURE, str(error))
    except OSError as error:
        return _fail(EXIT_FAILURE, f"{error.strerror or error}: {error.filename or ''}".rstrip(": "))


def _loaded(command: str) -> Callable[[Settings, argparse.Namespace], Coroutine[Any, Any, None]]:
    # What is imported stays: looking through it for garbage, again and again while it grows, takes a fifth of the
    # time of a start, and later of every full collection.
    gc.disable()
    try:
        return load(_COMMANDS[command])
    finally:
        gc.freeze()
        gc.enable()


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


async def _until_told(command: Awaitable[None]) -> int:
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


def _fail(status: int, text: str) -> int:
    sys.stderr.write(f"threadkeep: {text}\n")
    return status
