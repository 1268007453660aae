"""The use cases that the routes call."""

from __future__ import annotations

from functools import cached_property

from prometheus_client import CollectorRegistry

from app.api.deps import Services
from app.api.metering import HttpMetrics
from app.assembly.accounts import Accounts
from app.assembly.agents import Agents
from app.assembly.hooks import Hooks
from app.assembly.runs import Runs
from app.assembly.stores import Stores
from app.assembly.upkeep import upkeep
from app.config import Settings
from app.persistence.lineage import LineageStore
from app.persistence.probe import DatabaseProbe
from app.services.accounts.usage import UsageService
from app.services.background import Background
from app.services.compaction.context import ContextService
from app.services.compaction.drafts import DraftService
from app.services.compaction.manual import ManualCompactions
from app.services.compaction.pins import PinService
from app.services.compaction.preview import PreviewService
from app.services.compaction.service import CompactionService
from app.services.compaction.undo import UndoService
from app.services.features import features_of
from app.services.gauges import Gauges
from app.services.graph_schemas import GraphSchemas
from app.services.recall.search import SearchService
from app.services.runs.janitor import Janitor
from app.services.runs.messages import RunMessages
from app.services.runs.stateless import StatelessThreads
from app.services.store import StoreService
from app.services.threads.branches import ThreadBranches
from app.services.threads.lineage import Lineages
from app.services.threads.replays import Replays
from app.services.threads.reservations import Reservations
from app.services.threads.service import ThreadService
from app.services.threads.state import StateService
from app.services.threads.streams import ThreadStreams
from app.services.threads.turns import Turns
from app.services.upkeep.service import Upkeep


class Web:
    """What is behind HTTP. ``background`` is work that outlives the request that began it."""

    def __init__(
        self,
        settings: Settings,
        stores: Stores,
        agents: Agents,
        runs: Runs,
        accounts: Accounts,
        hooks: Hooks,
        registry: CollectorRegistry,
    ) -> None:
        self._settings = settings
        self._stores = stores
        self._agents = agents
        self._runs = runs
        self._accounts = accounts
        self._hooks = hooks
        self._registry = registry
        self._probe = DatabaseProbe(stores.pool)
        self.background = Background()

    @cached_property
    def reservations(self) -> Reservations:
        return Reservations(self._stores.threads)

    @cached_property
    def thread_service(self) -> ThreadService:
        return ThreadService(
            self._stores.threads,
            self._agents.workspaces,
            self._runs.service.cancel_all,
            self._delete_checkpoints,
        )

    async def _delete_checkpoints(self, thread_id: str) -> None:
        await self._agents.saver().adelete_thread(thread_id)

    @cached_property
    def compactions(self) -> CompactionService:
        return CompactionService(
            self._stores.threads,
            self._stores.records,
            self.reservations,
            self.manual,
            self._agents.compactor,
            self.background,
        )

    @cached_property
    def manual(self) -> ManualCompactions:
        return ManualCompactions(
            self._settings.summarization,
            self._stores.threads,
            self._stores.runs,
            self._agents.graphs,
            self._agents.models,
            self._agents.compactor,
        )

    @cached_property
    def undo(self) -> UndoService:
        return UndoService(
            self._stores.threads,
            self._stores.records,
            self._stores.archive,
            self.reservations,
            self._agents.graphs,
            self._agents.models,
            self.manual,
            self._agents.compactor,
            self.background,
        )

    @cached_property
    def drafts(self) -> DraftService:
        return DraftService(
            self._settings.summarization,
            self._stores.threads,
            self._stores.records,
            self._stores.drafts,
            self.reservations,
            self.manual,
            self._agents.compactor,
            self.background,
        )

    @cached_property
    def pins(self) -> PinService:
        return PinService(
            self._settings.summarization,
            self._stores.threads,
            self._stores.pins,
            self._stores.records,
            self._agents.graphs,
            self._agents.models,
            self._agents.compactor,
        )

    @cached_property
    def states(self) -> StateService:
        return StateService(self._stores.threads, self._agents.graphs, self.reservations)

    @cached_property
    def thread_streams(self) -> ThreadStreams:
        return ThreadStreams(
            self._stores.thread_stream,
            self._runs.streams,
            self.states,
            self._stores.hub,
            self._runs.closing,
            self._settings.server.heartbeat_s,
        )

    @cached_property
    def stateless(self) -> StatelessThreads:
        return StatelessThreads(
            self._stores.temporary_threads,
            self.thread_service.delete,
            self._settings.runs.stateless_grace_s,
        )

    @cached_property
    def janitor(self) -> Janitor:
        return Janitor(
            self._stores.runs,
            self._runs.queue,
            self._settings.runs.stalled_after_s / 2,
            [self.stateless.sweep, self._hooks.sender.prune, self._stores.drafts.prune],
        )

    @cached_property
    def contexts(self) -> ContextService:
        return ContextService(
            self._stores.threads,
            self._stores.breakers,
            self._agents.graphs,
            self._agents.models,
            self._agents.compactor,
        )

    @cached_property
    def upkeep(self) -> Upkeep:
        return upkeep(self._settings, self._stores, self._agents, self.thread_service, self.reservations)

    @cached_property
    def lineages(self) -> Lineages:
        return Lineages(LineageStore(self._stores.pool), self._runs.timelines)

    @cached_property
    def replays(self) -> Replays:
        return Replays(
            self._stores.threads,
            self._stores.runs,
            self._agents.graphs,
            self.lineages,
            Turns(self._runs.timelines),
        )

    @cached_property
    def branches(self) -> ThreadBranches:
        return ThreadBranches(
            self.thread_service,
            self.states,
            self.upkeep.copies,
            self._agents.graphs,
            self.lineages,
            Turns(self._runs.timelines),
        )

    @cached_property
    def services(self) -> Services:
        return Services(
            threads=self.thread_service,
            states=self.states,
            runs=self._runs.service,
            streams=self._runs.streams,
            thread_events=self._runs.thread_events,
            results=self._runs.results,
            compactions=self.compactions,
            contexts=self.contexts,
            thread_streams=self.thread_streams,
            stateless=self.stateless,
            usage=UsageService(self._stores.token_usage, self.contexts),
            webhooks=self._stores.webhooks,
            features=features_of(self._settings),
            pins=self.pins,
            previews=PreviewService(self.manual, self._agents.compactor),
            drafts=self.drafts,
            undo=self.undo,
            timelines=self._runs.timelines,
            run_messages=RunMessages(self.thread_service, self._runs.timelines, self._stores.token_usage),
            searches=SearchService(
                self._stores.threads, self._agents.graphs, self._agents.recall, self._runs.timelines
            ),
            memory=self._agents.memory.service,
            store=StoreService(self._stores.items),
            assistants=self._agents.assistants,
            schemas=GraphSchemas(self._agents.graphs),
            upkeep=self.upkeep,
            replays=self.replays,
            branches=self.branches,
            background=self.background,
            graphs=self._agents.graphs,
            models=self._agents.models,
            skills=self._agents.skills,
            registry=self._registry,
            gauges=Gauges(self._registry, self._stores.runs, self._stores.hub, self._stores.pool),
            http_metrics=HttpMetrics(self._registry),
            accounts=self._accounts.authenticator,
            keys=self._accounts.keys,
            limits=self._accounts.limits,
            check_ready=self.check_ready,
            strict_thread_ids=self._settings.server.strict_thread_ids,
        )

    async def check_ready(self) -> str | None:
        """Why requests cannot be served now, or None."""
        if self._runs.closing.is_set():
            return "the service is shutting down"
        return await self._probe.problem()
