"""The parts of the service that are measured, put together without HTTP and without a queue."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from langchain_core.language_models import BaseChatModel
from langchain_core.tools import BaseTool
from prometheus_client import CollectorRegistry
from psycopg_pool import AsyncConnectionPool

from app.agent.build import AgentGraphs
from app.agent.parts import AgentParts
from app.agent.tools import Workspaces
from app.chat_models.overflow import is_context_overflow
from app.config import Settings, SummarizationSettings
from app.persistence.breakers import BreakerStore
from app.persistence.checkpoints import ThreadSaver
from app.persistence.compactions import CompactionStore
from app.persistence.pins import PinStore
from app.persistence.runs import RunStore
from app.persistence.threads import ThreadStore
from app.ports import ChatModels
from app.services.background import Background
from app.services.compaction.compactor import ThreadCompactor
from app.services.compaction.manual import ManualCompactions
from app.services.compaction.metrics import CompactionMetrics
from app.services.compaction.service import CompactionService
from app.services.threads.reservations import Reservations

OWNER = "bench"


@dataclass(frozen=True, slots=True)
class Rig:
    """Everything a thread needs to run and to be compacted, on one database."""

    pool: AsyncConnectionPool[Any]
    graphs: AgentGraphs
    threads: ThreadStore
    compactions: CompactionService


def build_compactor(
    settings: SummarizationSettings,
    models: ChatModels,
    pool: AsyncConnectionPool[Any],
    records: CompactionStore | None = None,
) -> ThreadCompactor:
    return ThreadCompactor(
        settings,
        models,
        records or CompactionStore(pool),
        BreakerStore(pool),
        PinStore(pool),
        CompactionMetrics(CollectorRegistry()),
        is_context_overflow,
    )


def assemble(
    settings: Settings,
    pool: AsyncConnectionPool[Any],
    models: ChatModels,
    tools: Sequence[BaseTool],
    placeholder: BaseChatModel,
    records: CompactionStore | None = None,
) -> Rig:
    threads, records = ThreadStore(pool), records or CompactionStore(pool)
    compactor = build_compactor(settings.summarization, models, pool, records)

    def saver() -> ThreadSaver:
        return ThreadSaver(pool, compactor.committed)

    graphs = AgentGraphs(settings, models, AgentParts(compactor, tools), saver, placeholder)
    manual = ManualCompactions(settings.summarization, threads, RunStore(pool), graphs, models, compactor)
    compactions = CompactionService(threads, records, Reservations(threads), manual, compactor, Background())
    return Rig(pool, graphs, threads, compactions)


def no_workspaces() -> Workspaces:
    """Workspaces that nothing is ever written to: for tools that are counted and never called."""
    return Workspaces(Path(os.devnull))
