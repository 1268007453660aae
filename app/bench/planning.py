"""What a compaction costs besides its model: counting and dividing the thread, rendering what is removed."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass, replace
from statistics import median

from langchain_core.messages import BaseMessage

from app.bench.histories import Conversation, Stored, text_bytes
from app.bench.models import MODEL_NAME, BenchModel
from app.bench.timing import Effort, cpu_ms, no_collection, traced
from app.compaction.calls import SummaryTask
from app.compaction.pipeline import Plan, plan
from app.compaction.reading import Reader
from app.compaction.summarize import summarize
from app.compaction.tokens import TokenCounter
from app.compaction.types import Candidate, CompactionPolicy, Context, ContextSize, Skipped
from app.compaction.verify import verify

_KEEP = ContextSize("messages", 10)


@dataclass(frozen=True, slots=True)
class PlanningFigures:
    """A compaction of a thread of so many ``messages`` down to ten, without the time of a model.

    ``partition``: count, divide, check. ``rendering``: render what is removed into the prompts of the summary
    calls, judge the answers. Times are ms of processor time; peaks are bytes held beside the messages, all that
    the compaction made so far included.
    """

    messages: int
    text_bytes: int
    partition_ms: float
    rendering_ms: float
    partition_peak_bytes: int
    rendering_peak_bytes: int
    summary_calls: int

    @property
    def total_ms(self) -> float:
        return self.partition_ms + self.rendering_ms

    @property
    def peak_ratio(self) -> float:
        """The larger peak / the size of the thread's text."""
        return max(self.partition_peak_bytes, self.rendering_peak_bytes) / self.text_bytes


class _Compaction:
    """One compaction, from a counter that has not seen the thread to the last summary."""

    def __init__(self, messages: Sequence[BaseMessage], policy: CompactionPolicy) -> None:
        self._messages = messages
        self._policy = policy
        self._counter = TokenCounter()
        self._plan: Plan | None = None
        self.model = BenchModel()

    async def divide(self, _: object = None) -> None:
        planned = plan(Context(messages=self._messages), self._policy, self._counter, force=True)
        if isinstance(planned, Skipped):
            raise RuntimeError(f"there was nothing to measure: {planned.reason}")
        verify(self._messages, planned.partition)
        self._plan = planned

    async def render(self, _: object = None) -> None:
        assert self._plan is not None
        count = self._counter.text
        task = SummaryTask(
            reader=Reader(self._plan.partition.removed, count),
            previous=None,
            policy=self._policy,
            max_tokens=self._plan.max_summary_tokens,
            count=count,
        )
        await summarize(task, [Candidate(MODEL_NAME, lambda: self.model)])


async def measure_planning(size: int, policy: CompactionPolicy, effort: Effort) -> PlanningFigures:
    """``policy`` gives the limits of the summary calls; what fires and what stays is the same for everybody."""
    policy = replace(policy, trigger=(), keep=_KEEP)
    stored = Stored(Conversation().take(size))
    await _worked(_Compaction(stored.read(), policy))
    times = []
    with no_collection():
        for _ in effort.each():
            await asyncio.sleep(0)  # the one place where the bench can be stopped
            compaction = _Compaction(stored.read(), policy)
            times.append((await cpu_ms(compaction.divide, None), await cpu_ms(compaction.render, None)))
    messages = stored.read()
    size_of_text = text_bytes(messages)
    compaction = _Compaction(messages, policy)
    with traced() as peak:
        await compaction.divide()
        partition_peak = peak()
        await compaction.render()
        rendering_peak = peak()
    return PlanningFigures(
        messages=size,
        text_bytes=size_of_text,
        partition_ms=median(divided for divided, _ in times),
        rendering_ms=median(rendered for _, rendered in times),
        partition_peak_bytes=partition_peak,
        rendering_peak_bytes=rendering_peak,
        summary_calls=len(compaction.model.summary_chars),
    )


async def _worked(compaction: _Compaction) -> None:
    await compaction.divide()
    await compaction.render()
