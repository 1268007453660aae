"""The parts of a process, plugged together: stores → models → agents → services. Nothing runs yet."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import cached_property
from typing import Any

import psycopg
from langchain_core.tools import BaseTool
from langgraph.store.postgres.aio import AsyncPostgresStore
from prometheus_client import CollectorRegistry
from psycopg_pool import PoolTimeout

from app.agent.build import AgentGraphs
from app.agent.dynamic import DynamicContext, Recall
from app.agent.mcp import McpCatalog
from app.agent.parts import AgentParts
from app.agent.skills import SkillCapture, SkillCatalogue
from app.agent.title import Titles
from app.agent.tool_output import ToolOutput
from app.agent.tools import (
    Mount,
    WorkspaceLimits,
    Workspaces,
    clarification_tool,
    file_tools,
    todos_tool,
)
from app.agent.tools.task import TASK_TOOL
from app.api.deps import Services
from app.api.metering import HttpMetrics
from app.chat_models.demo import DemoChatModel
from app.chat_models.overflow import is_context_overflow
from app.chat_models.registry import ChatModelRegistry
from app.compaction.tokens import TokenCounter
from app.config import Settings
from app.persistence.checkpoints import ThreadSaver
from app.persistence.compactions import CompactionStore
from app.persistence.database import Database
from app.persistence.events import EventHub, EventStore
from app.persistence.memory import MemoryStore
from app.persistence.memory_queue import MemoryQueue
from app.persistence.queue import RunQueue, WorkerSettings
from app.persistence.rollback import RollbackStore
from app.persistence.runs import RunStore
from app.persistence.threads import ThreadStore
from app.services.background import Background
from app.services.compaction import CompactionService
from app.services.compaction_metrics import CompactionMetrics
from app.services.compactor import ThreadCompactor
from app.services.context import ContextService
from app.services.execution import RunExecutor
from app.services.janitor import Janitor
from app.services.memory import MemoryService
from app.services.memory_extraction import MemoryExtractor
from app.services.memory_feed import MemoryFeed
from app.services.reservations import Reservations
from app.services.run_input import RunInputs
from app.services.run_results import RunResults
from app.services.run_streams import RunStreams
from app.services.runs import RunService
from app.services.state import StateService
from app.services.threads import ThreadService

Clock = Callable[[], datetime]


@dataclass(frozen=True)
class Memory:
    """What is known of people. ``enabled``: facts are noted and told; else they can only be looked at and deleted."""

    enabled: bool
    store: MemoryStore
    service: MemoryService
    queue: MemoryQueue
    feed: MemoryFeed

    @property
    def recall(self) -> Recall | None:
        return self.service.recall if self.enabled else None


class Assembly:
    """Each part is built once, when something needs it. ``now`` says which day agents are told."""

    def __init__(self, settings: Settings, environ: dict[str, str], database: Database, now: Clock) -> None:
        self.settings = settings
        self.database = database
        self._environ = environ
        self._now = now
        self._pool: Any = database.pool
        self._registry = CollectorRegistry()
        self.closing = asyncio.Event()
        self.background = Background()

    # Stores

    @cached_property
    def threads(self) -> ThreadStore:
        return ThreadStore(self._pool)

    @cached_property
    def runs(self) -> RunStore:
        return RunStore(self._pool)

    @cached_property
    def events(self) -> EventStore:
        return EventStore(self._pool)

    @cached_property
    def records(self) -> CompactionStore:
        return CompactionStore(self._pool)

    @cached_property
    def hub(self) -> EventHub:
        return EventHub(self.database.url)

    def saver(self) -> ThreadSaver:
        """A checkpointer for one use: it serialises its callers."""
        return ThreadSaver(self._pool, self.compactor.committed)

    @cached_property
    def workspaces(self) -> Workspaces:
        return Workspaces(self.settings.data_dir / "workspaces", self._limits)

    @property
    def _limits(self) -> WorkspaceLimits:
        return WorkspaceLimits(**self.settings.workspace.model_dump())

    # Models and memory

    @cached_property
    def models(self) -> ChatModelRegistry:
        return ChatModelRegistry(self.settings.models, self._environ)

    @cached_property
    def memory(self) -> Memory:
        settings = self.settings.memory
        store = MemoryStore(AsyncPostgresStore(self._pool), self._pool)
        queue = MemoryQueue(self._pool, self._worker_settings, settings.debounce_s)
        return Memory(
            enabled=settings.enabled,
            store=store,
            service=MemoryService(settings, store, self.threads, TokenCounter().text),
            queue=queue,
            feed=MemoryFeed(self.runs, queue),
        )

    @cached_property
    def extractor(self) -> MemoryExtractor:
        return MemoryExtractor(
            self.settings.memory,
            self.memory.store,
            self.threads,
            self.records,
            self.graphs,
            self.models,
            TokenCounter().text,
            self._now,
        )

    # Agents

    @cached_property
    def compactor(self) -> ThreadCompactor:
        return ThreadCompactor(
            self.settings.summarization,
            self.models,
            self.records,
            CompactionMetrics(self._registry),
            is_context_overflow,
            hooks=[self.memory.feed.before_summarization] if self.memory.enabled else (),
        )

    @cached_property
    def skills(self) -> SkillCatalogue:
        return SkillCatalogue(self.settings.skills_dir, self.settings.skills.container_path)

    @cached_property
    def tools(self) -> Sequence[BaseTool]:
        mount = Mount(self.skills.container_path, self.skills.location, self._limits, self.skills.stamp)
        return (*file_tools(self.workspaces, [mount]), todos_tool(), clarification_tool())

    @cached_property
    def mcp(self) -> McpCatalog:
        reading = self.settings.summarization.skill_file_read_tool_names
        reserved = {TASK_TOOL, *reading, *(tool.name for tool in self.tools)}
        return McpCatalog(self.settings.mcp, self._environ, reserved)

    @cached_property
    def graphs(self) -> AgentGraphs:
        return AgentGraphs(self.settings, self.models, self._parts, self.saver, DemoChatModel())

    @property
    def _parts(self) -> AgentParts:
        settings, skills = self.settings, self.skills
        dynamic, title, output = settings.dynamic_context, settings.title, settings.tool_output
        return AgentParts(
            self.compactor,
            self.tools,
            dynamic_context=DynamicContext(self._now, dynamic.zone, self.memory.recall)
            if dynamic.enabled
            else None,
            titles=Titles(title, self.models) if title.enabled else None,
            tool_output=ToolOutput(output, self.workspaces) if output.enabled else None,
            mcp=self.mcp if self.mcp.servers else None,
            skills=skills,
            capture=SkillCapture(skills.container_path, settings.summarization.skill_file_read_tool_names),
        )

    # Runs

    @cached_property
    def streams(self) -> RunStreams:
        return RunStreams(self.runs, self.events, self.hub, self.closing, self.settings.server.heartbeat_s)

    @cached_property
    def queue(self) -> RunQueue:
        executor = RunExecutor(
            self.runs,
            self.events,
            self.threads,
            self.graphs,
            self.settings.runs,
            RollbackStore(self._pool),
        )
        feed = self.memory.feed
        execute = feed.after(executor.execute) if self.memory.enabled else executor.execute
        return RunQueue(self._pool, execute, self._worker_settings)

    @property
    def _worker_settings(self) -> WorkerSettings:
        runs = self.settings.runs
        return WorkerSettings(
            concurrency=runs.concurrency,
            heartbeat=runs.stalled_after_s / 4,
            stalled=runs.stalled_after_s,
            grace=self.settings.server.shutdown_grace_s,
        )

    @cached_property
    def run_service(self) -> RunService:
        return RunService(
            self.runs, RunInputs(self.graphs), self.streams, self.queue, self.graphs, self.models
        )

    @cached_property
    def janitor(self) -> Janitor:
        return Janitor(self.runs, self.queue, self.settings.runs.stalled_after_s / 2)

    # What the routes use

    @cached_property
    def reservations(self) -> Reservations:
        return Reservations(self.threads)

    @cached_property
    def thread_service(self) -> ThreadService:
        return ThreadService(
            self.threads, self.workspaces, self.run_service.cancel_all, self._delete_checkpoints
        )

    async def _delete_checkpoints(self, thread_id: str) -> None:
        await self.saver().adelete_thread(thread_id)

    @cached_property
    def compactions(self) -> CompactionService:
        return CompactionService(
            self.settings.summarization,
            self.threads,
            self.runs,
            self.records,
            self.reservations,
            self.graphs,
            self.models,
            self.compactor,
            self.background,
        )

    @cached_property
    def services(self) -> Services:
        return Services(
            threads=self.thread_service,
            states=StateService(self.threads, self.graphs, self.reservations),
            runs=self.run_service,
            streams=self.streams,
            results=RunResults(self.runs, self.graphs),
            compactions=self.compactions,
            contexts=ContextService(self.threads, self.records, self.graphs, self.models, self.compactor),
            memory=self.memory.service,
            background=self.background,
            graphs=self.graphs,
            models=self.models,
            skills=self.skills,
            registry=self._registry,
            http_metrics=HttpMetrics(self._registry),
            check_ready=self.check_ready,
            strict_thread_ids=self.settings.server.strict_thread_ids,
        )

    async def check_ready(self) -> str | None:
        """Why requests cannot be served now, or None."""
        if self.closing.is_set():
            return "the service is shutting down"
        try:
            async with self._pool.connection(timeout=2) as conn:
                await conn.execute("SELECT 1 FROM threads LIMIT 1")
        except (psycopg.Error, PoolTimeout) as error:
            return f"the database does not answer ({type(error).__name__})"
        return None
