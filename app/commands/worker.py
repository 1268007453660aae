"""``python -m app worker``: a process that executes runs, and at most tells how it fares."""

from __future__ import annotations

import argparse
import asyncio
import os
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager, suppress
from typing import Any

from app.api.door import Door
from app.api.watch import build_watch
from app.commands.listening import Server, answering, listen, refuse_exposure
from app.commands.report import startup_report
from app.commands.say import say
from app.commands.traces import langsmith_traces
from app.commands.tuning import tune
from app.config import Settings
from app.main import Core, open_core


async def worker(settings: Settings, arguments: argparse.Namespace) -> None:
    """Execute runs until cancelled."""
    with langsmith_traces():
        async with _watched(settings) as (door, address), open_core(settings, dict(os.environ)) as core:
            door.open(_watch(settings, core))
            tune()
            say(startup_report(core, address, "Threadkeep worker"))
            with suppress(asyncio.CancelledError):
                await asyncio.Event().wait()


@asynccontextmanager
async def _watched(settings: Settings) -> AsyncIterator[tuple[Door, Sequence[Any] | None]]:
    """The door, and the address at which it is if the worker listens: before it is ready, and until what it executes
    has been put back."""
    door = Door()
    if settings.worker.port is None:
        yield door, None
        return
    with listen(settings.server.host, settings.worker.port) as listener:
        address = listener.getsockname()
        refuse_exposure(settings, address[0])
        async with answering(Server(door), listener):
            yield door, address


def _watch(settings: Settings, core: Core) -> Any:
    app = build_watch(settings.server)
    app.state.services = core.services
    return app
