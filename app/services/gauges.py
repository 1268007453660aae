"""What stands at the moment it is asked for: the queue, open streams, connections to the database."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Mapping
from typing import Any

import psycopg
from prometheus_client import CollectorRegistry
from prometheus_client.core import GaugeMetricFamily
from prometheus_client.registry import Collector
from psycopg_pool import AsyncConnectionPool, PoolTimeout

from app.persistence.events import EventHub
from app.persistence.runs import QueueState, RunStore

_PATIENCE_SECONDS = 2.0
_POOL = "threadkeep_db_connections"


class Gauges(Collector):
    """Read when metrics are collected; ``refresh`` asks the database before. Figures of the queue are those of the
    whole installation, whichever process tells them, and are left out while the database does not answer."""

    def __init__(
        self, registry: CollectorRegistry, runs: RunStore, hub: EventHub, pool: AsyncConnectionPool[Any]
    ) -> None:
        self._runs = runs
        self._hub = hub
        self._pool = pool
        self._queue: QueueState | None = None
        registry.register(self)

    async def refresh(self) -> None:
        try:
            async with asyncio.timeout(_PATIENCE_SECONDS):
                self._queue = await self._runs.queue_state()
        except (psycopg.Error, PoolTimeout, TimeoutError):
            self._queue = None

    def describe(self) -> Iterator[GaugeMetricFamily]:
        """Nothing: what there is, ``collect`` says."""
        return iter(())

    def collect(self) -> Iterator[GaugeMetricFamily]:
        yield from self._of_queue()
        yield _family("threadkeep_streams", "Clients that follow something here", "kind", self._hub.watched())
        stats = self._pool.get_stats()
        size, idle = stats.get("pool_size", 0), stats.get("pool_available", 0)
        yield _family(_POOL, "Connections of this process", "state", {"in_use": size - idle, "idle": idle})
        yield _plain(
            "threadkeep_db_waiting", "Callers that wait for a connection", stats.get("requests_waiting", 0)
        )

    def _of_queue(self) -> Iterator[GaugeMetricFamily]:
        queue = self._queue
        if queue is None:
            return
        counts = {"waiting": queue.waiting, "running": queue.running}
        yield _family(
            "threadkeep_runs_open", "Runs that are not over, delayed ones not included", "state", counts
        )
        yield _plain(
            "threadkeep_runs_oldest_waiting_seconds", "Age of the oldest waiting run", queue.oldest_s
        )


def _family(name: str, text: str, label: str, values: Mapping[str, float]) -> GaugeMetricFamily:
    family = GaugeMetricFamily(name, text, labels=[label])
    for key, value in values.items():
        family.add_metric([key], value)
    return family


def _plain(name: str, text: str, value: float) -> GaugeMetricFamily:
    return GaugeMetricFamily(name, text, value=value)
