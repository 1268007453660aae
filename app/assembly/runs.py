"""How runs are started, executed and followed."""

from __future__ import annotations

import asyncio
from functools import cached_property

from prometheus_client import CollectorRegistry

from app.assembly.agents import Agents, worker_settings
from app.assembly.stores import Stores
from app.config import Settings
from app.persistence.admission import Admissions
from app.persistence.queue import RunQueue
from app.persistence.thread_events import ThreadEventStore
from app.services.accounts.limits import Limits
from app.services.runs.echoes import Echoes
from app.services.runs.execution import RunExecutor
from app.services.runs.input import RunInputs
from app.services.runs.results import RunResults
from app.services.runs.service import RunService
from app.services.runs.streams import RunStreams
from app.services.thread_events.service import ThreadEvents
from app.services.threads.timeline import TimelineService
from app.services.webhooks.policy import WebhookPolicy
from app.services.work_metrics import RunMetrics


class Runs:
    """The queue of runs and its readers. ``closing`` is set when this process ends its streams."""

    def __init__(
        self,
        settings: Settings,
        stores: Stores,
        agents: Agents,
        limits: Limits,
        webhooks: WebhookPolicy,
        registry: CollectorRegistry,
    ) -> None:
        self._registry = registry
        self._settings = settings
        self._stores = stores
        self._agents = agents
        self._limits = limits
        self._webhooks = webhooks
        self.closing = asyncio.Event()

    @cached_property
    def streams(self) -> RunStreams:
        return RunStreams(
            self._stores.runs,
            self._stores.events,
            self._stores.hub,
            self.closing,
            self._settings.server.heartbeat_s,
        )

    @cached_property
    def thread_events(self) -> ThreadEvents:
        return ThreadEvents(
            ThreadEventStore(self._stores.pool),
            self._stores.events,
            self.streams,
            self._stores.hub,
            self.closing,
            self._settings.server.heartbeat_s,
        )

    @cached_property
    def timelines(self) -> TimelineService:
        return TimelineService(
            self._stores.threads,
            self._stores.records,
            self._stores.archive,
            self._stores.pins,
            self._agents.graphs,
        )

    @cached_property
    def queue(self) -> RunQueue:
        executor = RunExecutor(
            self._stores.runs,
            self._stores.events,
            self._stores.threads,
            self._agents.graphs,
            self._settings.runs,
            self._stores.rollbacks,
            self._limits,
            self._stores.token_usage,
            self._stores.redactor,
            RunMetrics(self._registry),
        )
        feed = self._agents.memory.feed
        execute = feed.after(executor.execute) if self._agents.memory.enabled else executor.execute
        return RunQueue(self._stores.pool, execute, worker_settings(self._settings))

    @cached_property
    def service(self) -> RunService:
        return RunService(
            self._stores.runs,
            Admissions(self._stores.pool),
            RunInputs(self._agents.graphs, Echoes(self._stores.archive, self.timelines)),
            self.streams,
            self.queue,
            self._agents.graphs,
            self._agents.assistants,
            self._agents.models,
            self._limits,
            self._webhooks,
        )

    @cached_property
    def results(self) -> RunResults:
        return RunResults(self._stores.runs, self._agents.graphs)
