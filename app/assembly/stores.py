"""The tables, each behind its store."""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property
from typing import Any

from app.persistence.accounts import AccountStore
from app.persistence.archive import ArchiveStore
from app.persistence.assistants import AssistantStore
from app.persistence.breakers import BreakerStore
from app.persistence.compactions import CompactionStore
from app.persistence.database import Database
from app.persistence.discretion import Discretion
from app.persistence.drafts import DraftStore
from app.persistence.events import EventHub, EventStore
from app.persistence.items import ItemStore
from app.persistence.pins import PinStore
from app.persistence.recall import RecallStore
from app.persistence.rollback import RollbackStore
from app.persistence.runs import RunStore
from app.persistence.temporary_threads import TemporaryThreadStore
from app.persistence.thread_stream import ThreadStreamStore
from app.persistence.threads import ThreadStore
from app.persistence.token_usage import ModelCall, TokenUsageStore
from app.persistence.webhooks import WebhookStore
from app.redaction import Redactor


class Stores:
    """What is kept, and what tells of it. ``noted`` is told of every call of a model."""

    def __init__(
        self,
        database: Database,
        redactor: Redactor,
        *,
        archive_originals: bool,
        noted: Callable[[ModelCall], None],
    ) -> None:
        self.database = database
        self.redactor = redactor
        self.noted = noted
        self._discretion = Discretion(redactor, archive_originals=archive_originals)
        self.pool: Any = database.pool

    @cached_property
    def threads(self) -> ThreadStore:
        return ThreadStore(self.pool)

    @cached_property
    def runs(self) -> RunStore:
        return RunStore(self.pool)

    @cached_property
    def events(self) -> EventStore:
        return EventStore(self.pool, self.hub)

    @cached_property
    def records(self) -> CompactionStore:
        return CompactionStore(self.pool, self._discretion)

    @cached_property
    def archive(self) -> ArchiveStore:
        return ArchiveStore(self.pool)

    @cached_property
    def breakers(self) -> BreakerStore:
        return BreakerStore(self.pool)

    @cached_property
    def accounts(self) -> AccountStore:
        return AccountStore(self.pool)

    @cached_property
    def drafts(self) -> DraftStore:
        return DraftStore(self.pool)

    @cached_property
    def pins(self) -> PinStore:
        return PinStore(self.pool)

    @cached_property
    def assistants(self) -> AssistantStore:
        return AssistantStore(self.pool)

    @cached_property
    def items(self) -> ItemStore:
        return ItemStore(self.pool)

    @cached_property
    def webhooks(self) -> WebhookStore:
        return WebhookStore(self.pool)

    @cached_property
    def thread_stream(self) -> ThreadStreamStore:
        return ThreadStreamStore(self.pool)

    @cached_property
    def temporary_threads(self) -> TemporaryThreadStore:
        return TemporaryThreadStore(self.pool)

    @cached_property
    def token_usage(self) -> TokenUsageStore:
        return TokenUsageStore(self.pool, self.noted)

    @cached_property
    def hub(self) -> EventHub:
        return EventHub(self.database.url)

    @cached_property
    def recall(self) -> RecallStore:
        return RecallStore(self.pool)

    @cached_property
    def rollbacks(self) -> RollbackStore:
        return RollbackStore(self.pool)
