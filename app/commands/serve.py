"""``python -m app serve``: the HTTP service."""

from __future__ import annotations

import argparse
import asyncio
import os

from app.api.door import Door
from app.commands.listening import Server, answering, listen, refuse_exposure
from app.commands.report import startup_report
from app.commands.say import say
from app.commands.traces import langsmith_traces
from app.commands.tuning import tune
from app.config import Settings
from app.main import create_app


async def serve(settings: Settings, arguments: argparse.Namespace) -> None:
    """HTTP, and the runs too unless ``--no-worker``, until cancelled."""
    with langsmith_traces(), listen(settings.server.host, settings.server.port) as listener:
        refuse_exposure(settings, listener.getsockname()[0])
        app = create_app(settings, dict(os.environ), work=not arguments.no_worker)
        door = Door()
        # The port is open all the while, so that nobody takes a long migration for a dead process.
        server = Server(door)
        async with answering(server, listener) as serving, app.router.lifespan_context(app):
            door.open(app)
            tune()
            say(startup_report(app.state.core, listener.getsockname()))
            try:
                await asyncio.shield(serving)
            except asyncio.CancelledError:
                # uvicorn waits for open requests, so streams have to end by themselves.
                app.state.core.begin_stop()
                server.should_exit = True
                await serving
