"""``python -m app worker``: a process that executes runs, without HTTP."""

from __future__ import annotations

import argparse
import asyncio
import os
from contextlib import suppress

from app.commands.report import startup_report
from app.commands.say import say
from app.commands.tuning import tune
from app.config import Settings
from app.main import open_core


async def worker(settings: Settings, arguments: argparse.Namespace) -> None:
    """Execute runs until cancelled."""
    async with open_core(settings, dict(os.environ)) as core:
        tune()
        say(startup_report(core, None))
        with suppress(asyncio.CancelledError):
            await asyncio.Event().wait()
