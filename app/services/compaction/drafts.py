"""Drafts: compactions that are made, looked at, perhaps edited, and then applied or thrown away."""

from __future__ import annotations

import asyncio
from datetime import UTC
from functools import partial
from typing import Any

import orjson
from langgraph.types import StateSnapshot

from app.agent.summary_message import conversation_of
from app.compaction.cover import cover_of, covered
from app.compaction.types import Compaction, Skipped
from app.config import SummarizationSettings
from app.errors import DraftApplied, DraftExpired, NotADraft, NotFound
from app.persistence.compactions import CompactionRecord, CompactionStore
from app.persistence.drafts import Draft, DraftStore, NewDraft
from app.persistence.encoding import digest_of, encode
from app.persistence.threads import ThreadStore
from app.ports import CompactionJob, Prepared
from app.services.background import Background
from app.services.compaction.application import applied, checked_text, drafted, refuse_stale, summary_digest
from app.services.compaction.compactor import ThreadCompactor
from app.services.compaction.manual import CompactRequest, ManualCompactions, Target, compacted, skipped
from app.services.threads.reservations import Held, Reservations

_SECONDS_AN_HOUR = 3600


class DraftService:
    """The use cases of drafts. A draft holds its thread only while it is made and while it is applied."""

    def __init__(
        self,
        settings: SummarizationSettings,
        threads: ThreadStore,
        records: CompactionStore,
        drafts: DraftStore,
        reservations: Reservations,
        manual: ManualCompactions,
        compactor: ThreadCompactor,
        background: Background,
    ) -> None:
        self._ttl_s = settings.draft_ttl_hours * _SECONDS_AN_HOUR
        self._threads = threads
        self._records = records
        self._drafts = drafts
        self._reservations = reservations
        self._manual = manual
        self._compactor = compactor
        self._background = background

    async def make(self, owner: str, thread_id: str, request: CompactRequest) -> dict[str, Any]:
        """Write the summary of a compaction and keep it as a draft; the state is left alone (``dry_run: "summary"``).

        Raises as ``CompactionService.compact`` does. Nothing to do is an answer, not an error.
        """
        target = await self._manual.target(owner, thread_id, request)
        return await self._background.finish(self._make(owner, target, request))

    async def apply(
        self, owner: str, thread_id: str, compaction_id: str, summary_text: str | None
    ) -> dict[str, Any]:
        """Commit a draft, with another summary when ``summary_text`` is given; what came since is kept.

        Raises NotFound, NotADraft, DraftApplied, DraftExpired, DraftStale, InvalidInput (text), MessagePinned,
        CompactionDisabled, ThreadBusy, ThreadInterrupted.
        """
        await self._record(owner, thread_id, compaction_id)
        return await self._background.finish(self._apply(owner, thread_id, compaction_id, summary_text))

    async def discard(self, owner: str, thread_id: str, compaction_id: str) -> None:
        """Delete a draft. Raises NotFound, NotADraft, DraftApplied."""
        record = await self._record(owner, thread_id, compaction_id)
        if not await self._drafts.discard(thread_id, compaction_id):
            raise _refusal(record, await self._drafts.get(thread_id, compaction_id))

    async def details(self, thread_id: str, compaction_id: str) -> dict[str, Any]:
        """What is shown of a draft beside its record: the messages it would remove, as far as they are still what it
        covers, and until when it can be applied. Raises NotFound."""
        draft = await self._drafts.get(thread_id, compaction_id)
        if draft is None:
            raise _unknown(thread_id, compaction_id)
        head = await self._manual.head(Target(thread_id, draft.graph_name, model_name=""))
        messages = conversation_of(head.values).messages
        found = await asyncio.to_thread(lambda: list(covered(draft.cover, messages, digest_of)))
        return {
            "expires_at": draft.expires_at,
            "removed_messages": [orjson.loads(encode(message).text) for message in found],
        }

    async def _make(self, owner: str, target: Target, request: CompactRequest) -> dict[str, Any]:
        thread_id = target.thread_id
        await self._records.settle(thread_id)
        async with self._reservations.hold(owner, thread_id):
            head = await self._manual.head(target)
            await self._manual.refuse_to_lose_a_question(thread_id, head)
            job = self._manual.job(target, request, head)
            outcome = await self._compactor.draft(job, partial(self._store, target))
        if isinstance(outcome, Skipped):
            shown = {"status": "skipped", "summary_text": None, "expires_at": None}
            return {**skipped(thread_id, outcome, head), **shown, "dry_run": "summary"}
        draft = await self._drafts.get(thread_id, outcome.compaction_id)
        return _answer(outcome, target, head, draft)

    async def _store(
        self, target: Target, job: CompactionJob, compaction_id: str, compaction: Compaction
    ) -> Prepared:
        cover = await asyncio.to_thread(cover_of, job.context.messages, compaction, digest_of)
        draft = NewDraft(
            thread_id=job.thread_id,
            compaction_id=compaction_id,
            graph_name=target.graph_name,
            cover=cover,
            summary_digest=summary_digest(job.context.summary),
            marker=job.previous_id,
        )
        # Before its record: a record of a draft that nothing is known of could never be applied nor pruned.
        await self._drafts.add(draft, self._ttl_s)
        await self._records.add(drafted(job, compaction_id, compaction))
        return Prepared(compaction_id, compaction)

    async def _apply(
        self, owner: str, thread_id: str, compaction_id: str, summary_text: str | None
    ) -> dict[str, Any]:
        await self._records.settle(thread_id)
        async with self._reservations.hold(owner, thread_id) as held:
            record = await self._record(owner, thread_id, compaction_id)
            draft = _usable(record, await self._drafts.get(thread_id, compaction_id))
            request = CompactRequest(agent_name=draft.graph_name, instructions=record.instructions)
            target = await self._manual.target(owner, thread_id, request)
            return await self._commit(held, target, request, draft, record, summary_text)

    async def _commit(
        self,
        held: Held,
        target: Target,
        request: CompactRequest,
        draft: Draft,
        record: CompactionRecord,
        summary_text: str | None,
    ) -> dict[str, Any]:
        counter, policy = self._compactor.counter(target.model_name), self._compactor.policy
        text = checked_text(summary_text, policy, counter)
        head = await self._manual.head(target)
        await self._manual.refuse_to_lose_a_question(target.thread_id, head)
        job = self._manual.job(target, request, head)
        pinned = await self._compactor.pinned(job)
        await asyncio.to_thread(refuse_stale, draft, job, pinned, digest_of)
        compaction = applied(draft, record, job, text, counter)
        taking = self._drafts.taking(draft.thread_id, draft.compaction_id)
        prepared = await self._compactor.prepare(job, draft.compaction_id, compaction, taking)
        answer = await self._manual.commit(held, target, job, prepared, head)
        return {
            **answer,
            "status": "committed",
            "summary_text": compaction.summary,
            "edited": compaction.edited,
        }

    async def _record(self, owner: str, thread_id: str, compaction_id: str) -> CompactionRecord:
        if await self._threads.get(thread_id, owner) is None:
            raise NotFound(f"There is no thread {thread_id}")
        record = await self._records.get(thread_id, compaction_id)
        if record is None:
            raise _unknown(thread_id, compaction_id)
        return record


def _usable(record: CompactionRecord, draft: Draft | None) -> Draft:
    """The draft, if it can still be applied. An application that changed nothing does not count."""
    applicable = record.status == "draft" or (record.status == "failed" and record.reason == "not_committed")
    if draft is None or not applicable:
        raise _refusal(record, draft)
    if draft.expired:
        expired = draft.expires_at.astimezone(UTC)
        raise DraftExpired(f"Draft {record.compaction_id} expired at {expired:%Y-%m-%d %H:%M} UTC")
    return draft


def _refusal(record: CompactionRecord, draft: Draft | None) -> NotADraft | DraftApplied:
    if draft is not None and record.status != "failed":
        return DraftApplied(f"Draft {record.compaction_id} has been applied: it is {record.status}")
    return NotADraft(f"Compaction {record.compaction_id} is {record.status}, not a draft")


def _unknown(thread_id: str, compaction_id: str) -> NotFound:
    return NotFound(f"There is no compaction {compaction_id} on thread {thread_id}")


def _answer(prepared: Prepared, target: Target, head: StateSnapshot, draft: Draft | None) -> dict[str, Any]:
    return {
        **compacted(target.thread_id, prepared, head.config["configurable"]["checkpoint_id"]),
        "compacted": False,
        "summary_updated": False,
        "status": "draft",
        "dry_run": "summary",
        "summary_text": prepared.compaction.summary,
        "expires_at": draft and draft.expires_at,
    }
