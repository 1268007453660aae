"""What ``python -m app bench compaction|recall|gateway`` takes, declared without what it measures."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

SIZES = (100, 1_000, 10_000)  # messages of the threads of a thorough measurement

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
        help=f"messages of the measured threads, by default {','.join(map(str, SIZES))}",
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
