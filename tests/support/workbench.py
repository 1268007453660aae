"""Compaction without HTTP: the compactor on a real database with a model that says what it is told."""

from __future__ import annotations

import uuid
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from langchain_core.language_models import BaseChatModel
from langchain_core.messages import BaseMessage
from prometheus_client import CollectorRegistry

from app.compaction.failures import is_context_overflow
from app.compaction.types import Context
from app.config import ContextSizeSettings, SummarizationSettings
from app.persistence.breakers import BreakerStore
from app.persistence.compactions import CompactionStore
from app.persistence.database import Database
from app.persistence.pins import PinStore
from app.persistence.threads import ThreadStore
from app.ports import CompactionJob, ModelDescription, SummarizationHook
from app.services.compaction.compactor import ThreadCompactor
from app.services.compaction.metrics import CompactionMetrics
from tests.support.models import ScriptedModel
from tests.support.threads import talk
from tests.support.transcripts import as_messages

KEEP_TWO = SummarizationSettings(keep=ContextSizeSettings(type="messages", value=2))


@dataclass
class OneModel:
    """The port of chat models, with one model."""

    model: ScriptedModel = field(default_factory=ScriptedModel.saying)
    default: str = "scripted"
    names: tuple[str, ...] = ("scripted",)

    def describe(self) -> Sequence[ModelDescription]:
        return ()

    def get(self, name: str) -> BaseChatModel:
        return self.model

    def for_summary(self, name: str) -> BaseChatModel:
        return self.model

    def window(self, name: str) -> int | None:
        return None

    def max_tokens(self, name: str) -> int:
        return 0


@dataclass
class Workbench:
    """A compactor, what it stands on, and the events that it sent."""

    database: Database
    model: ScriptedModel = field(default_factory=ScriptedModel.saying)
    settings: SummarizationSettings = KEEP_TWO
    hooks: Sequence[SummarizationHook] = ()
    registry: CollectorRegistry = field(default_factory=CollectorRegistry)
    events: list[Any] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.models = OneModel(self.model)
        self.records = CompactionStore(self.database.pool)
        self.breakers = BreakerStore(self.database.pool)
        self.threads = ThreadStore(self.database.pool)
        self.compactor = ThreadCompactor(
            self.settings,
            self.models,
            self.records,
            self.breakers,
            PinStore(self.database.pool),
            CompactionMetrics(self.registry),
            is_context_overflow,
            self.hooks,
        )

    async def new_thread(self) -> str:
        created = await self.threads.create(str(uuid.uuid4()), "", {})
        assert created
        return created.thread_id

    def job(self, thread_id: str, messages: Sequence[BaseMessage] = (), **changes: Any) -> CompactionJob:
        """A forced manual compaction of ``messages``, by default of twelve exchanges."""
        given: dict[str, Any] = {
            "run_id": None,
            "agent_name": "agent",
            "model_name": "scripted",
            "context": Context(list(messages) or as_messages(talk(12))),
            "kind": "manual",
            "force": True,
            "emit": self.events.append,
        }
        return CompactionJob(thread_id, **{**given, **changes})
