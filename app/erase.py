"""The command ``python -m app erase``: threads and owners that are to be nowhere any more."""

from __future__ import annotations

import argparse
import math
import os
import sys
from typing import Any

from app.config import Settings
from app.errors import ThreadBusy
from app.main import open_core
from app.services.upkeep.erasure import Erased, Erasure

_DAY_SECONDS = 86_400.0


def add_erase(commands: Any, common: argparse.ArgumentParser) -> None:
    """The subcommand ``erase``; ``common`` are the options of every command."""
    parser = commands.add_parser(
        "erase", parents=[common], help="removes a thread, an owner or what is old, for ever"
    )
    what = parser.add_mutually_exclusive_group(required=True)
    what.add_argument("--thread", metavar="ID", help="a thread, and what was noted in it about its owner")
    what.add_argument("--owner", help="all threads of an owner and everything else that is the owner's")
    what.add_argument(
        "--older-than", type=_days, metavar="DAYS", help="idle threads on which nothing has happened since"
    )


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


def _days(text: str) -> float:
    try:
        days = float(text)
    except ValueError:
        days = math.nan
    if not 0 <= days < math.inf:
        raise argparse.ArgumentTypeError(f"{text!r} is not a number of days")
    return days
