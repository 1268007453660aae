"""``python -m app bench compaction|recall``: what it takes and where its figures go."""

from __future__ import annotations

import argparse
import json
import logging
import sys
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from app.bench import recall, recall_report
from app.bench.report import document, machine, tables
from app.bench.suite import QUICK, THOROUGH, measure, own_database
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
    search = subjects.add_parser(
        "recall", parents=[common], help="searches of a long archive, and what archiving costs a compaction"
    )
    for subject in (compaction, search):
        subject.add_argument("--json", type=Path, metavar="FILE", help="write the figures there as well")
        subject.add_argument("--quick", action="store_true", help="seconds instead of minutes, rough figures")


async def bench(settings: Settings, arguments: argparse.Namespace) -> None:
    """Measure, print the tables, write the JSON. Raises DatabaseError and OSError.

    When it is cancelled, databases and folders of its own are removed first.
    """
    if arguments.json:
        arguments.json.open("a").close()  # rather now than after minutes
    # What the service would say about its model and its compactions is not what is asked for here.
    logging.disable(logging.WARNING)
    on = machine()
    measured = _recall if arguments.subject == "recall" else _compaction
    text, figures = await measured(settings, arguments, on)
    sys.stdout.write(text + "\n")
    if arguments.json:
        arguments.json.write_text(json.dumps(figures, indent=2, ensure_ascii=False) + "\n")


async def _compaction(
    settings: Settings, arguments: argparse.Namespace, on: Mapping[str, Any]
) -> tuple[str, dict[str, Any]]:
    scope = QUICK if arguments.quick else THOROUGH
    scope = replace(scope, sizes=arguments.sizes or scope.sizes)
    figures = await measure(settings, scope, _progress)
    return tables(figures, on), document(figures, on)


async def _recall(
    settings: Settings, arguments: argparse.Namespace, on: Mapping[str, Any]
) -> tuple[str, dict[str, Any]]:
    scope = recall.QUICK if arguments.quick else recall.THOROUGH
    async with own_database(settings) as (own_settings, database):
        figures = await recall.measure_recall(own_settings, database, scope, _progress)
    return recall_report.tables(figures, on), recall_report.document(figures, on)


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
