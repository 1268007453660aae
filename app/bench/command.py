"""``python -m app bench compaction|recall|gateway``: what is measured and where the figures go."""

from __future__ import annotations

import argparse
import json
import logging
import sys
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from app.bench import recall, recall_report
from app.bench.gateway import report as gateway_report
from app.bench.gateway import suite as gateway
from app.bench.report import document, machine, tables
from app.bench.suite import QUICK, THOROUGH, measure, own_database
from app.config import Settings


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
