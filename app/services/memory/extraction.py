"""Reads what a person said and notes facts about them. In the background: no run waits for it or fails with it."""

from __future__ import annotations

import asyncio
import logging
from collections import Counter
from collections.abc import Callable, Sequence
from datetime import datetime

import orjson
from langchain_core.messages import BaseMessage, HumanMessage
from langchain_core.messages.ai import UsageMetadata
from langchain_core.runnables import RunnableConfig

from app.compaction.content import text_of
from app.compaction.secrets import without_secrets
from app.compaction.shorten import Count
from app.config import MemorySettings
from app.errors import InvalidInput
from app.persistence.compactions import CompactionStore
from app.persistence.memory import MemoryStore
from app.persistence.memory_queue import MemoryJob
from app.persistence.threads import Thread, ThreadStore
from app.persistence.token_usage import ModelCall, TokenUsageStore
from app.ports import ChatModels, Graphs
from app.redaction import Redactor
from app.services.ids import new_id
from app.services.memory.notes import changes, read_notes
from app.services.memory.prompt import MAX_TOKENS, Portion, portions, prompt, said_by_person
from app.services.threads.messages import read_messages

# A thread with more to read (an imported one) is read on after its next turn.
MAX_CALLS = 4
CALL_SECONDS = 60.0
# Of a small context window: facts, instructions and the answer need room too.
_SHARE_OF_WINDOW = 0.4
# Given with each call: its usage is its own, and no token of it reaches a stream.
_CALL: RunnableConfig = {
    "tags": ["nostream", "middleware:memory"],
    "metadata": {"caller": "memory"},
    "callbacks": [],
    "run_name": "memory",
}

_TOKENS = ("input_tokens", "output_tokens", "total_tokens")

log = logging.getLogger(__name__)


class MemoryExtractor:
    """Works off the jobs of the memory queue. What it raises makes the queue try again."""

    def __init__(
        self,
        settings: MemorySettings,
        store: MemoryStore,
        threads: ThreadStore,
        compactions: CompactionStore,
        graphs: Graphs,
        models: ChatModels,
        count: Count,
        now: Callable[[], datetime],
        redactor: Redactor,
        usage: TokenUsageStore,
    ) -> None:
        self._settings = settings
        self._store = store
        self._threads = threads
        self._compactions = compactions
        self._graphs = graphs
        self._models = models
        self._count = count
        self._now = now
        self._redactor = redactor
        self._usage = usage

    async def extract(self, job: MemoryJob) -> None:
        """Read what was not read yet. Raises whatever the model or the database raises; nothing half done remains."""
        thread = await self._threads.find(job.thread_id)
        if thread is None:
            return
        read, question = await self._messages(job, thread)
        # All at once: whatever is cut, shown or compared from here on has no secret in it.
        messages = [without_secrets(message, self._redactor) for message in read]
        unread = await self._store.unread(job.thread_id, said_by_person(messages))
        model_name = self._settings.model_name or job.model_name
        for number, portion in enumerate(portions(messages, unread, self._room(model_name), self._count)):
            if number == MAX_CALLS:
                break
            await self._note(thread, portion, model_name, question)
            await self._store.mark_read(job.thread_id, portion.asked)

    async def _messages(self, job: MemoryJob, thread: Thread) -> tuple[Sequence[BaseMessage], str | None]:
        """What to look through, and the question that the conversation went on with, where that is not among it."""
        graph = self._graphs.for_state(thread.graph_name)
        head = await graph.aget_state({"configurable": {"thread_id": thread.thread_id}})
        live: list[BaseMessage] = head.values.get("messages") or []
        if job.compaction_id is None:
            return live, None
        asked = (self._redactor.text(text_of(message)) for message in live if message.id == job.question_id)
        question = next(asked, None)
        archived = await self._compactions.removed_messages(thread.thread_id, job.compaction_id)
        return _restored(archived), question

    async def _note(self, thread: Thread, portion: Portion, model_name: str, question: str | None) -> None:
        seen = await self._store.facts(thread.owner)
        known = [(fact.key, self._redactor.text(fact.text)) for fact in seen]
        today = self._now().date()
        asked = prompt(portion.shown, known, today, self._settings.max_facts, question)
        reply, usage = await self._ask(model_name, asked)
        await self._charge(thread.thread_id, model_name, usage)
        notes = read_notes(reply)
        if notes is None:
            log.warning("memory of thread %s: %s answered no notes", thread.thread_id, model_name)
            return
        now = await self._store.facts(thread.owner)
        write, forget = changes(notes, seen, now, thread.thread_id, self._settings.max_facts)
        await self._store.write(thread.owner, write, forget)
        log.info(
            "memory of thread %s: %d messages read, %d facts written, %d forgotten, %d refused; caller memory, %s: %s",
            thread.thread_id,
            len(portion.asked),
            len(write),
            len(forget),
            notes.refused,
            model_name,
            dict(usage),
        )

    async def _charge(self, thread_id: str, model_name: str, used: Counter[str]) -> None:
        tokens = {name: used[name] for name in _TOKENS}
        await self._usage.add([ModelCall(new_id(), thread_id, None, "memory", model_name, None, **tokens)])

    async def _ask(self, model_name: str, text: str) -> tuple[str, Counter[str]]:
        model = await asyncio.to_thread(self._models.for_summary, model_name)
        async with asyncio.timeout(CALL_SECONDS):
            reply = await model.ainvoke([HumanMessage(text)], _CALL)
        return reply.text, _tokens(reply.usage_metadata)

    def _room(self, model_name: str) -> int:
        window = self._models.window(model_name)
        return MAX_TOKENS if window is None else min(MAX_TOKENS, int(window * _SHARE_OF_WINDOW))


def _restored(archived: Sequence[str]) -> list[BaseMessage]:
    """Archived messages as objects. One that cannot be read any more is not a reason to read none."""
    restored: list[BaseMessage] = []
    for text in archived:
        try:
            restored += read_messages([orjson.loads(text)], "archive")
        except InvalidInput:
            log.warning("an archived message cannot be read for facts")
    return restored


def _tokens(usage: UsageMetadata | None) -> Counter[str]:
    if usage is None:
        return Counter()
    return Counter({name: usage[name] for name in _TOKENS})  # type: ignore[literal-required]
