"""The composition root: settings → database → stores → models → graphs → services → HTTP."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from functools import partial
from typing import Any

import psycopg
from fastapi import FastAPI
from langgraph.store.postgres.aio import AsyncPostgresStore
from prometheus_client import CollectorRegistry
from psycopg_pool import PoolTimeout

from app.agent.build import AgentGraphs
from app.agent.dynamic import DynamicContext, Recall
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
from app.api.application import build_app
from app.api.deps import Services
from app.api.metering import HttpMetrics
from app.chat_models.demo import DemoChatModel
from app.chat_models.overflow import is_context_overflow
from app.chat_models.registry import ChatModelRegistry
from app.compaction.tokens import TokenCounter
from app.config import Settings
from app.errors import ModelError
from app.persistence.checkpoints import ThreadSaver
from app.persistence.compactions import CompactionStore
from app.persistence.database import Database, open_database
from app.persistence.embedded import embedded_postgres
from app.persistence.events import EventHub, EventStore
from app.persistence.memory import MemoryStore
from app.persistence.memory_queue import MemoryQueue
from app.persistence.queue import RunQueue, WorkerSettings
from app.persistence.runs import RunStore
from app.persistence.schema import migrate
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
NOW: Clock = partial(datetime.now, UTC)


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


@dataclass(frozen=True)
class Core:
    """A running process without its HTTP: what ``serve`` puts routes around and ``worker`` runs as it is."""

    settings: Settings
    database: Database
    models: ChatModelRegistry
    services: Services
    queue: RunQueue
    memory: Memory
    closing: asyncio.Event
    hub: EventHub

    def close_streams(self) -> None:
        """End all streams of this process; their clients go on elsewhere."""
        self.closing.set()
        self.hub.wake_all()

    def begin_stop(self) -> None:
        """Close the streams and take no new run, so that what is under way ends while open requests do."""
        self.close_streams()
        self.queue.begin_stop()


@asynccontextmanager
async def prepared_database(settings: Settings) -> AsyncIterator[Database]:
    """The configured database, or the embedded one, migrated. Raises DatabaseError."""
    async with AsyncExitStack() as stack:
        url = settings.database.url
        address = (
            url.get_secret_value()
            if url
            else await stack.enter_async_context(embedded_postgres(settings.data_dir))
        )
        database = await stack.enter_async_context(
            open_database(
                address,
                min_size=settings.database.pool_min_size,
                max_size=settings.database.pool_max_size,
            )
        )
        await migrate(database)
        yield database if url else replace(database, label=f"embedded PostgreSQL in {settings.data_dir}")


@asynccontextmanager
async def open_core(
    settings: Settings, environ: dict[str, str], *, work: bool = True, now: Clock = NOW
) -> AsyncIterator[Core]:
    """Everything but HTTP, running. ``work``: execute runs in this process; ``now`` says which day agents are told.

    Raises DatabaseError and ConfigError.
    """
    async with AsyncExitStack() as stack:
        database = await stack.enter_async_context(prepared_database(settings))
        core, janitor, background = _assemble(settings, environ, database, now)
        # Building a model imports its package, which takes a second: not in the first request.
        with suppress(ModelError):
            await asyncio.to_thread(core.models.get, core.models.default)
        await core.hub.start()
        stack.push_async_callback(core.hub.stop)
        await core.queue.open()
        if core.memory.enabled:
            await core.memory.queue.open()
        stack.push_async_callback(_finish_work, core, background, settings.server.shutdown_grace_s)
        if work and core.memory.enabled:
            core.memory.queue.start(_extractor(core, now).extract)
        if work:
            core.queue.start()
        janitor.start()
        stack.push_async_callback(janitor.stop)
        stack.callback(core.begin_stop)
        # Not awaited: it may have to wait until a run of a dead worker was taken up and ended.
        background.start(core.services.threads.finish_deletions())
        yield core


async def _finish_work(core: Core, background: Background, grace_s: float) -> None:
    # Side by side: a service that is told to stop has little time before it is killed.
    await asyncio.gather(core.queue.stop(), core.memory.queue.stop(), background.stop(grace_s))


def create_app(
    settings: Settings, environ: dict[str, str], *, work: bool = True, now: Clock = NOW
) -> FastAPI:
    """The HTTP service. Nothing happens before its lifespan begins."""

    @asynccontextmanager
    async def lifespan(app: FastAPI) -> AsyncIterator[None]:
        async with open_core(settings, environ, work=work, now=now) as core:
            app.state.core = core
            app.state.services = core.services
            yield

    return build_app(settings.server, lifespan)


def _assemble(
    settings: Settings, environ: dict[str, str], database: Database, now: Clock
) -> tuple[Core, Janitor, Background]:
    pool: Any = database.pool
    registry = CollectorRegistry()
    threads, runs, events, records = (
        ThreadStore(pool),
        RunStore(pool),
        EventStore(pool),
        CompactionStore(pool),
    )
    hub, closing, background = EventHub(database.url), asyncio.Event(), Background()
    models = ChatModelRegistry(settings.models, environ)
    memory = _memory(settings, pool, threads, runs)
    compactor = ThreadCompactor(
        settings.summarization,
        models,
        records,
        CompactionMetrics(registry),
        is_context_overflow,
        hooks=[memory.feed.before_summarization] if memory.enabled else (),
    )
    workspaces = Workspaces(settings.data_dir / "workspaces", _limits(settings))
    skills = SkillCatalogue(settings.skills_dir, settings.skills.container_path)
    mount = Mount(skills.container_path, skills.location, _limits(settings), skills.stamp)

    def saver() -> ThreadSaver:
        return ThreadSaver(pool, compactor.committed)

    dynamic, title, output = settings.dynamic_context, settings.title, settings.tool_output
    parts = AgentParts(
        compactor,
        (*file_tools(workspaces, [mount]), todos_tool(), clarification_tool()),
        dynamic_context=DynamicContext(now, dynamic.zone, memory.recall) if dynamic.enabled else None,
        titles=Titles(title, models) if title.enabled else None,
        tool_output=ToolOutput(output, workspaces) if output.enabled else None,
        skills=skills,
        capture=SkillCapture(skills.container_path, settings.summarization.skill_file_read_tool_names),
    )
    graphs = AgentGraphs(settings, models, parts, saver, DemoChatModel())
    streams = RunStreams(runs, events, hub, closing, settings.server.heartbeat_s)
    executor = RunExecutor(runs, events, threads, graphs, settings.runs)
    execute = memory.feed.after(executor.execute) if memory.enabled else executor.execute
    queue = RunQueue(pool, execute, _worker_settings(settings))
    run_service = RunService(runs, RunInputs(graphs), streams, queue, graphs, models)
    reservations = Reservations(threads)
    services = Services(
        threads=ThreadService(
            threads, workspaces, run_service.cancel_all, lambda thread_id: saver().adelete_thread(thread_id)
        ),
        states=StateService(threads, graphs, reservations),
        runs=run_service,
        streams=streams,
        results=RunResults(runs, graphs),
        compactions=CompactionService(
            settings.summarization,
            threads,
            runs,
            records,
            reservations,
            graphs,
            models,
            compactor,
            background,
        ),
        contexts=ContextService(threads, records, graphs, models, compactor),
        memory=memory.service,
        background=background,
        graphs=graphs,
        models=models,
        skills=skills,
        registry=registry,
        http_metrics=HttpMetrics(registry),
        check_ready=lambda: _check_ready(database, closing),
        strict_thread_ids=settings.server.strict_thread_ids,
    )
    core = Core(settings, database, models, services, queue, memory, closing, hub)
    return core, Janitor(runs, queue, settings.runs.stalled_after_s / 2), background


def _memory(settings: Settings, pool: Any, threads: ThreadStore, runs: RunStore) -> Memory:
    store = MemoryStore(AsyncPostgresStore(pool), pool)
    queue = MemoryQueue(pool, _worker_settings(settings), settings.memory.debounce_s)
    return Memory(
        enabled=settings.memory.enabled,
        store=store,
        service=MemoryService(settings.memory, store, threads, TokenCounter().text),
        queue=queue,
        feed=MemoryFeed(runs, queue),
    )


def _extractor(core: Core, now: Clock) -> MemoryExtractor:
    pool: Any = core.database.pool
    return MemoryExtractor(
        core.settings.memory,
        core.memory.store,
        ThreadStore(pool),
        CompactionStore(pool),
        core.services.graphs,
        core.models,
        TokenCounter().text,
        now,
    )


def _worker_settings(settings: Settings) -> WorkerSettings:
    return WorkerSettings(
        concurrency=settings.runs.concurrency,
        heartbeat=settings.runs.stalled_after_s / 4,
        stalled=settings.runs.stalled_after_s,
        grace=settings.server.shutdown_grace_s,
    )


def _limits(settings: Settings) -> WorkspaceLimits:
    return WorkspaceLimits(**settings.workspace.model_dump())


async def _check_ready(database: Database, closing: asyncio.Event) -> str | None:
    if closing.is_set():
        return "the service is shutting down"
    try:
        async with database.pool.connection(timeout=2) as conn:
            await conn.execute("SELECT 1 FROM threads LIMIT 1")
    except (psycopg.Error, PoolTimeout) as error:
        return f"the database does not answer ({type(error).__name__})"
    return None
