"""The command ``python -m app erase``: threads and owners that are to be nowhere any more."""

from __future__ import annotations

import argparse
import os
import sys

from app.config import Settings
from app.errors import ThreadBusy
from app.main import open_core
from app.services.upkeep.erasure import Erased, Erasure

_DAY_SECONDS = 86_400.0


async def erase(settings: Settings, arguments: argparse.Namespace) -> None:
    """Raises DatabaseError, NotFound (thread), and ThreadBusy when something is still there, since it was in use."""
    async with open_core(settings, dict(os.environ), work=False) as core:
        erased = await _erase(core.services.upkeep.erasure, arguments)
    sys.stdout.write(f"Erased {len(erased.threads)} {'thread' if len(erased.threads) == 1 else 'threads'}.\n")
    if erased.busy:
        raise ThreadBusy(f"Not erased, since they are being written to: {', '.join(erased.busy)}; try again")


async def _erase(erasure: Erasure, arguments: argparse.Namespace) -> Erased:
    if arguments.thread is not None:
        return await erasure.erase_thread(arguments.thread)
    if arguments.owner is not None:
        return await erasure.erase_owner(arguments.owner)
    return await erasure.erase_older_than(arguments.older_than * _DAY_SECONDS)
