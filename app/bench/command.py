"""``python -m app bench compaction``: what it takes and where its figures go."""

from __future__ import annotations

import argparse
import json
import logging
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

from app.bench.report import document, machine, tables
from app.bench.suite import QUICK, THOROUGH, measure
from app.config import Settings

_SMALLEST, _LARGEST = 20, 20_000


def add_bench(commands: Any, common: argparse.ArgumentParser) -> None:
    """The subcommand ``bench`` with what can be measured; ``common`` are the options of every command."""
    bench_parser = commands.add_parser("bench", help="measures how fast and how good compactions are here")
    subjects = bench_parser.add_subparsers(dest="subject", required=True)
    compaction = subjects.add_parser(
        "compaction",
        parents=[common],
        help="hook, planning, storage and number of compactions, LangChain's middleware beside ours",
    )
    compaction.add_argument(
        "--sizes",
        type=_sizes,
        help=f"messages of the measured threads, by default {','.join(map(str, THOROUGH.sizes))}",
    )
    compaction.add_argument("--json", type=Path, metavar="FILE", help="write the figures there as well")
    compaction.add_argument("--quick", action="store_true", help="seconds instead of minutes, rough figures")


async def bench(settings: Settings, arguments: argparse.Namespace) -> None:
    """Measure, print the tables, write the JSON. Raises DatabaseError and OSError.

    When it is cancelled, databases and folders of its own are removed first.
    """
    if arguments.json:
        arguments.json.open("a").close()  # rather now than after minutes
    # What the service would say about its model and its compactions is not what is asked for here.
    logging.disable(logging.WARNING)
    scope = QUICK if arguments.quick else THOROUGH
    scope = replace(scope, sizes=arguments.sizes or scope.sizes)
    on = machine()
    figures = await measure(settings, scope, _progress)
    sys.stdout.write(tables(figures, on) + "\n")
    if arguments.json:
        arguments.json.write_text(json.dumps(document(figures, on), indent=2, ensure_ascii=False) + "\n")


def _progress(text: str) -> None:
    sys.stderr.write(f"measuring: {text}\n")
    sys.stderr.flush()


def _sizes(text: str) -> tuple[int, ...]:
    parts = [part.strip() for part in text.split(",")]
    if not all(part.isdecimal() and _SMALLEST <= int(part) <= _LARGEST for part in parts):
        raise argparse.ArgumentTypeError(
            f"{text!r} is not a list of numbers from {_SMALLEST} to {_LARGEST}, like 100,1000"
        )
    return tuple(sorted({int(part) for part in parts}))
