"""What the commands take, declared without what they do: none of it needs more than the standard library."""

from __future__ import annotations

import argparse
import math
import re
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from app.bench.arguments import add_bench

_SPAN = re.compile(r"([1-9]\d{0,4})([hdw])", re.ASCII)
_UNITS = {"h": timedelta(hours=1), "d": timedelta(days=1), "w": timedelta(weeks=1)}


def parser() -> argparse.ArgumentParser:
    """Of the whole command line; ``command`` is the name of the one that was called."""
    whole = argparse.ArgumentParser(prog="python -m app", description="Threadkeep")
    commands = whole.add_subparsers(dest="command", required=True)
    common = argparse.ArgumentParser(add_help=False)
    common.add_argument("--config", type=Path, help="config.yaml to read (THREADKEEP_CONFIG)")
    common.add_argument(
        "--data-dir", type=Path, help="folder of database and workspaces (THREADKEEP_DATA_DIR)"
    )
    _add_serve(commands, common)
    _add_worker(commands, common)
    commands.add_parser("migrate", parents=[common], help="brings the database up to date and stops")
    _add_keys(commands, common)
    _add_erase(commands, common)
    add_bench(commands, common)
    return whole


def _add_serve(commands: Any, common: argparse.ArgumentParser) -> None:
    serving = commands.add_parser("serve", parents=[common], help="the HTTP service")
    serving.add_argument("--host", help="address to listen on (THREADKEEP_HOST)")
    serving.add_argument("--port", type=int, help="port to listen on, 0 for any (THREADKEEP_PORT)")
    serving.add_argument("--no-worker", action="store_true", help="leave the runs to worker processes")


def _add_worker(commands: Any, common: argparse.ArgumentParser) -> None:
    working = commands.add_parser("worker", parents=[common], help="executes runs, without the API")
    working.add_argument("--host", help="address to listen on, with a port (THREADKEEP_HOST)")
    working.add_argument(
        "--port",
        type=int,
        dest="worker_port",
        help="port for /health, /ready and /metrics, 0 for any; without it there is none (THREADKEEP_WORKER_PORT)",
    )


def _add_keys(commands: Any, common: argparse.ArgumentParser) -> None:
    actions = commands.add_parser("keys", help="makes, lists and revokes the keys of people").add_subparsers(
        dest="action", required=True
    )
    create = actions.add_parser("create", parents=[common], help="makes a key and prints it, this once")
    create.add_argument(
        "--owner", required=True, help="whose threads it opens; '' owns what was there before accounts"
    )
    create.add_argument("--admin", action="store_true", help="may act for every owner")
    create.add_argument(
        "--expires", type=_expiry, metavar="WHEN", help="12h, 30d, 8w or 2027-12-31 (UTC); never without it"
    )
    listing = actions.add_parser("list", parents=[common], help="lists keys, without the keys themselves")
    listing.add_argument("--owner", help="only those of this owner")
    revoke = actions.add_parser("revoke", parents=[common], help="makes a key worthless")
    revoke.add_argument("key_id", metavar="ID", help="the key's id, as the list shows it")


def _add_erase(commands: Any, common: argparse.ArgumentParser) -> None:
    erase = commands.add_parser(
        "erase", parents=[common], help="removes a thread, an owner or what is old, for ever"
    )
    what = erase.add_mutually_exclusive_group(required=True)
    what.add_argument("--thread", metavar="ID", help="a thread, and what was noted in it about its owner")
    what.add_argument("--owner", help="all threads of an owner and everything else that is the owner's")
    what.add_argument(
        "--older-than", type=_days, metavar="DAYS", help="idle threads on which nothing has happened since"
    )


def _expiry(text: str) -> datetime:
    now = datetime.now(UTC)
    try:
        span = _SPAN.fullmatch(text)
        end = now + int(span[1]) * _UNITS[span[2]] if span else datetime.fromisoformat(text)
    except (ValueError, OverflowError):
        raise argparse.ArgumentTypeError(f"{text!r} is neither 12h, 30d, 8w nor a date") from None
    end = end if end.tzinfo else end.replace(tzinfo=UTC)
    if end <= now:
        raise argparse.ArgumentTypeError(f"{text!r} is over already")
    return end


def _days(text: str) -> float:
    try:
        days = float(text)
    except ValueError:
        days = math.nan
    if not 0 <= days < math.inf:
        raise argparse.ArgumentTypeError(f"{text!r} is not a number of days")
    return days
