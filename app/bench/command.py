"""``python -m app bench compaction|recall|gateway``: what it takes and where its figures go."""

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
from app.bench.gateway import report as gateway_report
from app.bench.gateway import suite as gateway
from app.bench.report import document, machine, tables
from app.bench.suite import QUICK, THOROUGH, measure, own_database
from app.config import Settings

_SMALLEST, _LARGEST = 20, 20_000
_MOST_CLIENTS = 256


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
    service = subjects.add_parser(
        "gateway", parents=[common], help="the service over HTTP beside the graph that it hosts; idle streams"
    )
    service.add_argument(
        "--clients", type=_clients, help="how many at a time, by default 1,8,32, and with --quick 1,8"
    )
    service.add_argument(
        "--recovery", action="store_true", help="also restart an embedded PostgreSQL and kill a worker"
    )
    for subject in (compaction, search, service):
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
    text, figures = await _MEASURED[arguments.subject](settings, arguments, on)
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


async def _gateway(
    settings: Settings, arguments: argparse.Namespace, on: Mapping[str, Any]
) -> tuple[str, dict[str, Any]]:
    scope = gateway.QUICK if arguments.quick else gateway.THOROUGH
    losses = gateway.LOSSES if arguments.recovery else 0
    scope = replace(scope, clients=arguments.clients or scope.clients, losses=losses)
    figures = await gateway.measure_gateway(settings, scope, _progress)
    return gateway_report.tables(figures, on), gateway_report.document(figures, on)


_MEASURED = {"compaction": _compaction, "recall": _recall, "gateway": _gateway}


def _progress(text: str) -> None:
    sys.stderr.write(f"measuring: {text}\n")
    sys.stderr.flush()


def _sizes(text: str) -> tuple[int, ...]:
    return _numbers(text, _SMALLEST, _LARGEST, "100,1000")


def _clients(text: str) -> tuple[int, ...]:
    return _numbers(text, 1, _MOST_CLIENTS, "1,8")


def _numbers(text: str, smallest: int, largest: int, example: str) -> tuple[int, ...]:
    parts = [part.strip() for part in text.split(",")]
    if not all(part.isdecimal() and smallest <= int(part) <= largest for part in parts):
        raise argparse.ArgumentTypeError(
            f"{text!r} is not a list of numbers from {smallest} to {largest}, like {example}"
        )
    return tuple(sorted({int(part) for part in parts}))
