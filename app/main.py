"""The composition root: settings → database → parts → HTTP, and the order in which they start and stop."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import partial

from fastapi import FastAPI

from app.agent.hosted import loaded_graphs
from app.api.application import build_app
from app.api.deps import Services
from app.assembly import Assembly, Clock, Memory
from app.chat_models.registry import ChatModelRegistry
from app.config import Settings
from app.errors import ModelError
from app.persistence.database import Database
from app.persistence.events import EventHub
from app.persistence.installation import redaction_key
from app.persistence.prepared import prepared_database
from app.persistence.queue import RunQueue
from app.redaction import Redactor
from app.services.background import Background

NOW: Clock = partial(datetime.now, UTC)


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
async def open_core(
    settings: Settings, environ: dict[str, str], *, work: bool = True, now: Clock = NOW
) -> AsyncIterator[Core]:
    """Everything but HTTP, running. ``work``: execute runs in this process; ``now`` says which day agents are told.

    Raises DatabaseError and ConfigError.
    """
    async with AsyncExitStack() as stack:
        # First, so that a graph that cannot be hosted is told of before a database is started for it.
        hosted = await stack.enter_async_context(loaded_graphs(settings.graphs))
        database = await stack.enter_async_context(prepared_database(settings))
        redactor = Redactor(settings.secrets.shapes, await redaction_key(database.pool))
        parts = Assembly(settings, environ, database, redactor, now, hosted)
        core, background = _core(parts), parts.web.background
        # Building a model imports its package, which takes a second: not in the first request.
        with suppress(ModelError):
            await asyncio.to_thread(core.models.get, core.models.default)
        await core.hub.start()
        stack.push_async_callback(core.hub.stop)
        await core.queue.open()
        if core.memory.enabled:
            await core.memory.queue.open()
        stack.push_async_callback(parts.agents.mcp.close)
        stack.push_async_callback(_finish_work, core, background, settings.server.shutdown_grace_s)
        if work and core.memory.enabled:
            core.memory.queue.start(parts.agents.extractor.extract)
        if work:
            parts.hooks.sender.start()
            stack.push_async_callback(parts.hooks.sender.stop)
            parts.agents.mcp.warm_up()
            core.queue.start()
            parts.agents.recall_indexer.start()
        await stack.enter_async_context(parts.stores.items.swept())
        parts.web.janitor.start()
        stack.push_async_callback(parts.web.janitor.stop)
        if work:
            core.services.upkeep.retention.start()
            stack.push_async_callback(core.services.upkeep.retention.stop)
        stack.push_async_callback(parts.agents.recall_indexer.stop)
        stack.callback(core.begin_stop)
        # Not awaited: it may have to wait until a run of a dead worker was taken up and ended.
        background.start(core.services.threads.finish_deletions())
        yield core


def _core(parts: Assembly) -> Core:
    return Core(
        parts.settings,
        parts.stores.database,
        parts.agents.models,
        parts.web.services,
        parts.runs.queue,
        parts.agents.memory,
        parts.runs.closing,
        parts.stores.hub,
    )


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
