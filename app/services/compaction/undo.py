"""Taking the newest compaction of a thread back, and making one that was taken back again.

Both are recorded and committed as a compaction is, in two halves (rule F1), and all channels but the messages, the
summary and the marker stay as they are.
"""

from __future__ import annotations

import time
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from typing import Any

from langchain_core.messages import BaseMessage
from langgraph.types import StateSnapshot

from app.agent.context import context_of
from app.agent.state import CompactionMarker, rewritten
from app.agent.summary_message import conversation_of
from app.compaction.chain import Chain, InForce, chain_of
from app.compaction.restore import changed_since, restored
from app.compaction.trigger import fired, held, message_count, resolve
from app.compaction.types import Context
from app.errors import Conflict, NotFound
from app.persistence.archive import ArchiveStore
from app.persistence.compactions import CompactionRecord, CompactionStore
from app.persistence.encoding import digest_of
from app.persistence.threads import ThreadStore
from app.ports import ChatModels, Graphs
from app.services.background import Background
from app.services.compaction.compactor import ThreadCompactor
from app.services.compaction.manual import ManualCompactions, Target
from app.services.compaction.undo_report import Change, answer, record_of
from app.services.threads.reservations import Held, Reservations

# After an undo the request may grow by so much before anything is compacted automatically again.
HOLD_GROWTH = 1.25


@dataclass(frozen=True, slots=True)
class _Scene:
    """A thread that is held, and what stands in it. ``context`` is what its model would be sent now."""

    held: Held
    target: Target
    head: StateSnapshot
    context: Context
    marker_id: str | None
    chain: Chain
    started: float

    @property
    def thread_id(self) -> str:
        return self.target.thread_id


class UndoService:
    """The use cases behind ``/compactions/{id}/undo`` and ``/redo``."""

    def __init__(
        self,
        threads: ThreadStore,
        records: CompactionStore,
        archive: ArchiveStore,
        reservations: Reservations,
        graphs: Graphs,
        models: ChatModels,
        manual: ManualCompactions,
        compactor: ThreadCompactor,
        background: Background,
    ) -> None:
        self._threads = threads
        self._records = records
        self._archive = archive
        self._reservations = reservations
        self._graphs = graphs
        self._models = models
        self._manual = manual
        self._compactor = compactor
        self._background = background

    async def undo(
        self, owner: str, thread_id: str, compaction_id: str, *, force: bool = False
    ) -> dict[str, Any]:
        """Bring back the messages and the summary of before a compaction; what was said since stays. ``force`` does so
        even if the request does not fit the model's window then.

        Raises NotFound, ThreadBusy, ThreadInterrupted, and Conflict: ``not_newest_compaction`` for any but the newest
        one in force on the branch of the head, ``would_overflow``, ``archive_incomplete`` when messages were erased.
        """
        target = await self._target(owner, thread_id)
        return await self._background.finish(self._undo(owner, target, compaction_id, force))

    async def redo(self, owner: str, thread_id: str, compaction_id: str) -> dict[str, Any]:
        """Make a compaction that was taken back again, with the same summary; what was said since stays.

        Raises NotFound, ThreadBusy, ThreadInterrupted, and Conflict (``not_redoable``) unless its undo is the last
        thing that happened to the messages it removed.
        """
        target = await self._target(owner, thread_id)
        return await self._background.finish(self._redo(owner, target, compaction_id))

    async def _undo(self, owner: str, target: Target, compaction_id: str, force: bool) -> dict[str, Any]:
        async with self._scene(owner, target) as scene:
            record = await self._record(target.thread_id, compaction_id)
            newest = _newest(scene.chain, record)
            of = (
                record
                if newest.compaction_id == compaction_id
                else await self._record(target.thread_id, newest.compaction_id)
            )
            (removal,) = await self._archive.removals(target.thread_id, [newest.carrier_id])
            removed = await self._removed(target.thread_id, newest.carrier_id)
            live = scene.context.messages
            messages = restored(live, removal, removed)
            there = {message.id for message in live}
            moved = [message for message_id, message in removed.items() if message_id not in there]
            summary = await self._summary_before(scene)
            then = self._then(scene, messages, summary)
            if not force:
                self._refuse_overflow(scene, then)
            before, after = self._tokens(scene, scene.context), self._tokens(scene, then)
            change = Change("undo", of, messages, moved, summary, before, after, round(after * HOLD_GROWTH))
            done = await self._commit(scene, change)
            return {**done, "will_compact_again": self._will_compact(scene, then, change)}

    async def _redo(self, owner: str, target: Target, compaction_id: str) -> dict[str, Any]:
        async with self._scene(owner, target) as scene:
            record = await self._record(target.thread_id, compaction_id)
            if not scene.chain.undone or scene.chain.undone[-1] != compaction_id:
                raise _not_redoable(scene.chain, record)
            removed = await self._archive.removed(target.thread_id, compaction_id)
            digests = {message_id: digest for message_id, digest, _ in removed}
            live = scene.context.messages
            if changed := changed_since(live, digests, digest_of):
                raise Conflict(
                    f"Compaction {compaction_id} cannot be made again: {len(changed)} of the messages that it removed "
                    f"were changed or deleted since ({changed[0]})",
                    code="not_redoable",
                )
            kept = [message for message in live if message.id not in digests]
            if not kept:
                raise Conflict(f"Compaction {compaction_id} would leave no message", code="not_redoable")
            moved = [message for message in live if message.id in digests]
            then = self._then(scene, kept, record.summary_text)
            before, after = self._tokens(scene, scene.context), self._tokens(scene, then)
            change = Change("redo", record, kept, moved, record.summary_text, before, after)
            return await self._commit(scene, change)

    @asynccontextmanager
    async def _scene(self, owner: str, target: Target) -> AsyncIterator[_Scene]:
        started = time.perf_counter()
        await self._records.settle(target.thread_id)
        async with self._reservations.hold(owner, target.thread_id) as held:
            head = await self._manual.head(target)
            await self._manual.refuse_to_lose_a_question(target.thread_id, head)
            marker_id = await self._marker_of(target.thread_id, head)
            chain = chain_of(await self._archive.links(target.thread_id), marker_id)
            context = self._context(target, head.values)
            yield _Scene(held, target, head, context, marker_id, chain, started)

    async def _marker_of(self, thread_id: str, head: StateSnapshot) -> str | None:
        """The last compaction, undo or redo of the branch.

        The state names it. In a graph without our channels the summary carries the name: with the only summary it is
        gone, too, once the graph has gone on, and only the records know of the undo.
        """
        if marker := conversation_of(head.values).marker:
            return marker["compaction_id"]
        checkpoint_id = head.config["configurable"].get("checkpoint_id")
        return await self._records.newest_undo(thread_id, checkpoint_id) if checkpoint_id else None

    async def _commit(self, scene: _Scene, change: Change) -> dict[str, Any]:
        milliseconds = round((time.perf_counter() - scene.started) * 1000)
        record = record_of(change, scene.target, scene.marker_id, milliseconds)
        last = change.messages[-1].id if change.messages else None
        marker = CompactionMarker(
            compaction_id=record.compaction_id, after_message_id=last, run_id=None, earlier=[]
        )
        if change.hold_tokens is not None:
            marker["hold_tokens"] = change.hold_tokens
        seen_ids = [message.id for message in scene.context.messages]
        await self._records.begin(record, change.moved if change.kind == "redo" else (), seen_ids)
        try:
            update = rewritten(change.messages, change.summary, marker)
            checkpoint_id = await self._manual.write(scene.held, scene.target, scene.head, update)
        except BaseException as error:
            failure = f"the state was not written ({type(error).__name__})"
            await self._records.abandon(scene.thread_id, record.compaction_id, failure)
            raise
        await self._manual.note(scene.target)
        return answer(record, change, checkpoint_id)

    async def _target(self, owner: str, thread_id: str) -> Target:
        thread = await self._threads.get(thread_id, owner)
        if thread is None:
            raise NotFound(f"There is no thread {thread_id}")
        agent = self._graphs.spec(thread.graph_name)
        return Target(thread_id, agent.name, agent.model or self._models.default)

    async def _record(self, thread_id: str, compaction_id: str) -> CompactionRecord:
        record = await self._records.get(thread_id, compaction_id)
        if record is None:
            raise NotFound(f"There is no compaction {compaction_id} on thread {thread_id}")
        return record

    async def _removed(self, thread_id: str, carrier_id: str) -> dict[str, BaseMessage]:
        removed = await self._archive.removed(thread_id, carrier_id)
        known = {message_id: message for message_id, _, message in removed if message is not None}
        if missing := len(removed) - len(known):
            raise Conflict(
                f"{missing} of {len(removed)} messages of this compaction were erased from the archive",
                code="archive_incomplete",
            )
        return known

    async def _summary_before(self, scene: _Scene) -> str | None:
        """That of the compaction before in the chain."""
        if len(scene.chain.in_force) < 2:
            return None
        return (await self._record(scene.thread_id, scene.chain.in_force[-2].carrier_id)).summary_text

    def _then(self, scene: _Scene, messages: Sequence[BaseMessage], summary: str | None) -> Context:
        # What a provider reported before is void (rule B3).
        last = messages[-1].id if messages else None
        marker = {"after_message_id": last}
        state = {**scene.head.values, "messages": messages, "summary_text": summary, "compaction": marker}
        return self._context(scene.target, state)

    def _context(self, target: Target, state: Mapping[str, Any]) -> Context:
        agent, name = self._graphs.spec(target.graph_name), target.model_name
        window, reserved = self._compactor.window(name), self._compactor.reserved(name)
        return context_of(state, agent, window, reserved)

    def _tokens(self, scene: _Scene, context: Context) -> int:
        return self._compactor.counter(scene.target.model_name).breakdown(context).total

    def _refuse_overflow(self, scene: _Scene, then: Context) -> None:
        window = self._models.window(scene.target.model_name)
        total = self._tokens(scene, then)
        if window is not None and total + then.reserved_output > window:
            raise Conflict(
                f"The request would have about {total} tokens and {then.reserved_output} reserved for the reply, the "
                f"context window of {scene.target.model_name} has {window}; `force` takes the compaction back anyway",
                code="would_overflow",
            )

    def _will_compact(self, scene: _Scene, then: Context, change: Change) -> bool:
        """Whether the next model call would compact the thread at once, undo or not."""
        breakdown = self._compactor.counter(scene.target.model_name).breakdown(then)
        policy = resolve(self._compactor.policy, then.window, then.reserved_output)
        due = fired(policy, breakdown, message_count(then)) is not None
        return due and not held(replace(then, hold_tokens=change.hold_tokens), breakdown)


def _newest(chain: Chain, record: CompactionRecord) -> InForce:
    newest = chain.in_force[-1] if chain.in_force else None
    if newest is None or record.compaction_id not in (newest.compaction_id, newest.carrier_id):
        which = f"that is {newest.compaction_id}" if newest else "there is none"
        raise Conflict(
            f"Only the newest compaction in force can be taken back, and {which}; compaction {record.compaction_id} "
            f"is {record.status}",
            code="not_newest_compaction",
        )
    return newest


def _not_redoable(chain: Chain, record: CompactionRecord) -> Conflict:
    which = f"the one that can is {chain.undone[-1]}" if chain.undone else "none was taken back last"
    return Conflict(
        f"Compaction {record.compaction_id} ({record.status}) cannot be made again: {which}",
        code="not_redoable",
    )
