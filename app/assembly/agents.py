"""Models, memory, tools, and the agents that are made of them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import cached_property

from langchain_core.tools import BaseTool
from langgraph.store.base import BaseStore
from langgraph.store.postgres.aio import AsyncPostgresStore
from prometheus_client import CollectorRegistry

from app.agent.build import AgentGraphs
from app.agent.dynamic import DynamicContext, Recall
from app.agent.hosted import HostedGraphs, LoadedGraph
from app.agent.mcp import McpCatalog
from app.agent.parts import AgentParts
from app.agent.registry import GraphRegistry
from app.agent.skills import SkillCapture, SkillCatalogue
from app.agent.title import Titles
from app.agent.tool_output import ToolOutput
from app.agent.tools import (
    Mount,
    WorkspaceLimits,
    Workspaces,
    clarification_tool,
    file_tools,
    history_tools,
    todos_tool,
)
from app.agent.tools.task import TASK_TOOL
from app.assembly.stores import Stores
from app.chat_models.demo import DemoChatModel
from app.chat_models.overflow import is_context_overflow
from app.chat_models.registry import ChatModelRegistry
from app.compaction.tokens import TokenCounter
from app.config import Settings
from app.persistence.checkpoints import ThreadSaver
from app.persistence.memory import MemoryStore
from app.persistence.memory_queue import MemoryQueue
from app.persistence.queue import WorkerSettings
from app.services.assistants import AssistantService
from app.services.compaction.compactor import ThreadCompactor
from app.services.compaction.metrics import CompactionMetrics
from app.services.memory.extraction import MemoryExtractor
from app.services.memory.feed import MemoryFeed
from app.services.memory.service import MemoryService
from app.services.recall.index import RecallIndexer
from app.services.recall.service import RecallService

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


class Agents:
    """The hosted graphs and what they are made of. ``now`` says which day agents are told."""

    def __init__(
        self,
        settings: Settings,
        environ: dict[str, str],
        stores: Stores,
        registry: CollectorRegistry,
        now: Clock,
        hosted: Sequence[LoadedGraph],
    ) -> None:
        self._hosted = hosted
        self._settings = settings
        self._environ = environ
        self._stores = stores
        self._registry = registry
        self._now = now

    def saver(self) -> ThreadSaver:
        """A checkpointer for one use: it serialises its callers."""
        return ThreadSaver(self._stores.pool, self.compactor.committed)

    @cached_property
    def workspaces(self) -> Workspaces:
        return Workspaces(self._settings.data_dir / "workspaces", self._limits)

    @property
    def _limits(self) -> WorkspaceLimits:
        return WorkspaceLimits(**self._settings.workspace.model_dump())

    @cached_property
    def models(self) -> ChatModelRegistry:
        return ChatModelRegistry(self._settings.models, self._environ)

    @cached_property
    def memory(self) -> Memory:
        settings = self._settings.memory
        store = MemoryStore(AsyncPostgresStore(self._stores.pool), self._stores.pool)
        queue = MemoryQueue(self._stores.pool, worker_settings(self._settings), settings.debounce_s)
        return Memory(
            enabled=settings.enabled,
            store=store,
            service=MemoryService(settings, store, self._stores.threads, TokenCounter().text),
            queue=queue,
            feed=MemoryFeed(self._stores.runs, queue),
        )

    @cached_property
    def extractor(self) -> MemoryExtractor:
        return MemoryExtractor(
            self._settings.memory,
            self.memory.store,
            self._stores.threads,
            self._stores.records,
            self.graphs,
            self.models,
            TokenCounter().text,
            self._now,
            self._stores.redactor,
            self._stores.token_usage,
        )

    @cached_property
    def compactor(self) -> ThreadCompactor:
        return ThreadCompactor(
            self._settings.summarization,
            self.models,
            self._stores.records,
            self._stores.breakers,
            self._stores.pins,
            CompactionMetrics(self._registry, self._stores.noted),
            is_context_overflow,
            hooks=[self.memory.feed.before_summarization] if self.memory.enabled else (),
            redact=self._stores.redactor.text,
        )

    @cached_property
    def skills(self) -> SkillCatalogue:
        return SkillCatalogue(self._settings.skills_dir, self._settings.skills.container_path)

    @cached_property
    def recall_indexer(self) -> RecallIndexer:
        return RecallIndexer(self._stores.recall)

    @cached_property
    def recall(self) -> RecallService:
        return RecallService(self._stores.recall, self._stores.archive, self.recall_indexer)

    @cached_property
    def tools(self) -> Sequence[BaseTool]:
        mount = Mount(self.skills.container_path, self.skills.location, self._limits, self.skills.stamp)
        recall = self._settings.recall
        past = history_tools(self.recall, recall) if recall.enabled else ()
        return (*file_tools(self.workspaces, [mount]), *past, todos_tool(), clarification_tool())

    @cached_property
    def mcp(self) -> McpCatalog:
        reading = self._settings.summarization.skill_file_read_tool_names
        reserved = {TASK_TOOL, *reading, *(tool.name for tool in self.tools)}
        return McpCatalog(self._settings.mcp, self._environ, reserved)

    @cached_property
    def graphs(self) -> GraphRegistry:
        agents = AgentGraphs(self._settings, self.models, self._parts, self.saver, DemoChatModel())
        hosted = HostedGraphs(self._hosted, self.compactor, self.saver, self._items_of)
        return GraphRegistry([agents, hosted])

    @cached_property
    def assistants(self) -> AssistantService:
        return AssistantService(self._stores.assistants, self.graphs)

    async def _items_of(self, thread_id: str) -> BaseStore:
        thread = await self._stores.threads.find(thread_id)
        return self._stores.items.of(thread.owner if thread else "")

    @property
    def _parts(self) -> AgentParts:
        settings, skills = self._settings, self.skills
        dynamic, title, output = settings.dynamic_context, settings.title, settings.tool_output
        return AgentParts(
            self.compactor,
            self.tools,
            dynamic_context=DynamicContext(self._now, dynamic.zone, self.memory.recall)
            if dynamic.enabled
            else None,
            titles=Titles(title, self.models, self._stores.redactor.text) if title.enabled else None,
            tool_output=ToolOutput(output, self.workspaces) if output.enabled else None,
            mcp=self.mcp if self.mcp.servers else None,
            skills=skills,
            capture=SkillCapture(skills.container_path, settings.summarization.skill_file_read_tool_names),
        )


def worker_settings(settings: Settings) -> WorkerSettings:
    """How the queues of this process work."""
    return WorkerSettings(
        concurrency=settings.runs.concurrency,
        heartbeat=settings.runs.stalled_after_s / 4,
        stalled=settings.runs.stalled_after_s,
        grace=settings.server.shutdown_grace_s,
    )
