"""One candidate reads the removed messages and writes the summary, in as many calls as it takes (D1, E3, E6)."""

from __future__ import annotations

import asyncio
import random
from collections import Counter
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any

from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AIMessage, HumanMessage
from langchain_core.runnables import RunnableConfig

from app.compaction.failures import is_context_overflow, is_transient, retry_after_s
from app.compaction.gate import Accepted, Refused, judge
from app.compaction.plain import plain
from app.compaction.prompt import TOO_LONG_TO_SUMMARISE, summary_prompt
from app.compaction.reading import Portion, Position, Reader, Room
from app.compaction.shorten import Count, tail
from app.compaction.types import CompactionPolicy

# Given with each call, so the model itself stays as it is. Without inherited callbacks no token reaches a
# client's stream and the provider is not asked to stream, which would lose the field of a refusal (E4, E6).
SUMMARY_CALL: RunnableConfig = {
    "tags": ["nostream", "middleware:summarize"],
    "metadata": {"caller": "compaction"},
    "callbacks": [],
    "run_name": "compaction",
}

# Of a declared window: the estimate may be off, and the reply needs its room.
_USABLE_WINDOW = 0.9
_REPLY_SHARE = 0.25
_LEAST_SHARE = 0.25
# What one call reads when neither a limit nor a window is known.
_UNKNOWN_WINDOW_BUDGET = 32_000
_BACK_OFF_S = 0.5


class RefusedSummary(Exception):
    """The gate refused what a model wrote (rule E4)."""

    def __init__(self, refused: Refused) -> None:
        super().__init__(f"{refused.reason}: {refused.detail}")


class NothingRead(Exception):
    """No message was read, so the summary so far must not stand for them (rule D5)."""


@dataclass(frozen=True, slots=True)
class SummaryTask:
    """What is to be summarised, and within which limits.

    ``max_tokens`` is the size of the summary in tokens, ``count`` gives the tokens of a text, ``is_overflow``
    whether an error means that a request was too long. ``sleep`` waits for seconds.
    """

    reader: Reader
    previous: str | None
    policy: CompactionPolicy
    max_tokens: int
    count: Count
    instructions: str | None = None
    is_overflow: Callable[[BaseException], bool] = is_context_overflow
    sleep: Callable[[float], Awaitable[Any]] = asyncio.sleep


@dataclass(frozen=True, slots=True)
class Written:
    """A candidate's summary, and the share of the removed characters that it read."""

    text: str
    coverage: float


@dataclass(frozen=True, slots=True)
class _Call:
    """A prompt, the portion in it, and the tokens of that portion and the summary so far."""

    prompt: str
    portion: Portion
    tokens: int


class Writer:
    """One candidate at work on one task."""

    def __init__(
        self,
        model: BaseChatModel,
        window: int | None,
        task: SummaryTask,
        *,
        deadline: float,
        usage: Counter[str],
    ) -> None:
        """``deadline`` is a time of the running loop. ``usage`` collects what the calls cost, refused ones
        included."""
        self._model = model
        self._task = task
        self._deadline = deadline
        self._usage = usage
        self._budget = self._first_budget(window)

    async def write(self) -> Written:
        """Folds the messages call by call into the previous summary.

        At most ``max_summary_calls`` calls are answered; a call that fails for want of room or for the moment
        gets the one retry of rule E3. Raises RefusedSummary, NothingRead and whatever the model raises.
        """
        reader, at = self._task.reader, Position()
        summary, read = self._task.previous, False
        for calls_after in reversed(range(self._task.policy.max_summary_calls)):
            if reader.finished(at):
                break
            summary, at, asked = await self._step(summary, at, calls_after)
            read = read or asked
        if summary is None:
            return Written(TOO_LONG_TO_SUMMARISE, 0.0)
        if not read:
            raise NothingRead("not a word of the messages fits into trim_tokens_to_summarize")
        return Written(summary, reader.coverage(at))

    async def _step(
        self, summary: str | None, at: Position, calls_after: int
    ) -> tuple[str | None, Position, bool]:
        """One call: the summary so far, the position behind what was read, and whether a model was asked."""
        call = self._call(summary, at, calls_after)
        if not call.portion.text:
            return summary, call.portion.after, False
        try:
            reply = await self._ask(call.prompt)
        except Exception as error:
            if not self._task.is_overflow(error):
                raise
            self._budget = call.tokens // 2
            shorter = self._call(summary, at, calls_after)
            if not shorter.portion.text or len(shorter.prompt) >= len(call.prompt):
                raise
            call, reply = shorter, await self._ask(shorter.prompt)
        return self._accepted(reply, call.prompt), call.portion.after, True

    def _call(self, summary: str | None, at: Position, calls_after: int) -> _Call:
        count, existing = self._task.count, self._existing(summary)
        room = Room(self._budget - count(existing), calls_after, self._budget)
        portion = self._task.reader.portion(at, room)
        prompt = summary_prompt(
            self._task.policy.summary_prompt,
            existing=existing,
            new_messages=portion.text,
            max_tokens=self._task.max_tokens,
            instructions=self._task.instructions,
            more_follows=not self._task.reader.finished(portion.after),
        )
        return _Call(prompt, portion, count(existing) + count(portion.text))

    def _existing(self, summary: str | None) -> str:
        """The summary so far within half of the budget; what must go is its beginning (rule D2)."""
        text, room = summary or "", self._budget // 2
        if self._task.count(text) <= room:
            return text
        note = f"[… the first {len(text)} characters of the older summary are left out …]\n"
        end = tail(text, room - self._task.count(note), self._task.count)
        return f"[… the first {len(text) - len(end)} characters of the older summary are left out …]\n{end}"

    async def _ask(self, prompt: str) -> AIMessage:
        try:
            return await self._invoke(prompt)
        except Exception as error:
            if self._task.is_overflow(error) or not is_transient(error):
                raise
            asked = retry_after_s(error)
            wait = _BACK_OFF_S * (1 + random.random()) if asked is None else asked
            if asyncio.get_running_loop().time() + wait >= self._deadline:
                raise
            await self._task.sleep(wait)
            return await self._invoke(prompt)

    async def _invoke(self, prompt: str) -> AIMessage:
        reply = await self._model.ainvoke([HumanMessage(content=plain(prompt))], config=SUMMARY_CALL)
        if usage := reply.usage_metadata:
            self._usage["input_tokens"] += usage["input_tokens"]
            self._usage["output_tokens"] += usage["output_tokens"]
            self._usage["total_tokens"] += usage["total_tokens"]
        return reply

    def _accepted(self, reply: AIMessage, prompt: str) -> str:
        match judge(reply, prompt=prompt, max_tokens=self._task.max_tokens, count=self._task.count):
            case Accepted(text):
                return text
            case Refused() as refused:
                raise RefusedSummary(refused)

    def _first_budget(self, window: int | None) -> int:
        """Tokens that a call may read, the summary so far included."""
        trim = self._task.policy.trim_tokens_to_summarize
        if window is None:
            return trim or _UNKNOWN_WINDOW_BUDGET
        frame = summary_prompt(
            self._task.policy.summary_prompt,
            existing=" ",
            new_messages="",
            max_tokens=self._task.max_tokens,
            instructions=self._task.instructions,
        )
        reply = min(2 * self._task.max_tokens, int(window * _REPLY_SHARE))
        # A window too small for the instructions is tried all the same: it may have been declared too small.
        room = max(int(window * _USABLE_WINDOW) - self._task.count(frame) - reply, int(window * _LEAST_SHARE))
        return min(trim or room, room)
