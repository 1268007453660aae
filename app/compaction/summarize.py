"""The chain of candidates: each may fail in its own way, the next one takes over (rules E0-E3)."""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from langchain_core.language_models import BaseChatModel

from app.compaction.calls import SummaryTask, Writer, Written
from app.compaction.failures import describe
from app.compaction.prompt import NOTHING_TO_SUMMARISE
from app.compaction.types import Candidate, ModelAttempt
from app.errors import SummaryGenerationError, SummaryTimeout

# Each candidate but the last leaves this share of the time for those after it (rule E3).
_SHARE_OF_DEADLINE = 2 / 3
_REMEMBERED_S = 60.0


@dataclass(frozen=True, slots=True)
class Summary:
    """A summary that may be committed. ``model_name`` is None when no model was needed. ``coverage`` is
    characters read / characters removed; ``usage`` is summed over all calls, failed ones included."""

    text: str
    coverage: float
    model_name: str | None
    attempts: tuple[ModelAttempt, ...] = ()
    usage: Mapping[str, int] = field(default_factory=dict)
    extractive: bool = False


class CandidateHealth:
    """Remembers for a minute, not for ever, that a candidate could not be built (rule E2)."""

    def __init__(self, now: Callable[[], float] = time.monotonic) -> None:
        self._now = now
        self._failures: dict[str, tuple[float, str]] = {}

    def failure(self, name: str) -> str | None:
        """Why the candidate could not be built within the last minute, or None."""
        at, reason = self._failures.get(name, (0.0, ""))
        if not reason or self._now() - at >= _REMEMBERED_S:
            self._failures.pop(name, None)
            return None
        return reason

    def not_built(self, name: str, reason: str) -> None:
        self._failures[name] = (self._now(), reason)


class _Failed(Exception):
    """A candidate gave no summary. ``in_time``: its share of the deadline was not what ended it."""

    def __init__(self, reason: str, *, in_time: bool = True) -> None:
        super().__init__(reason)
        self.in_time = in_time


async def summarize(
    task: SummaryTask, candidates: Sequence[Candidate], health: CandidateHealth | None = None
) -> Summary:
    """The first acceptable summary in the order of ``candidates``, each name once.

    Raises SummaryGenerationError with each candidate's reason when none gives one, SummaryTimeout when the
    deadline of the whole ended it. Cancellation goes through.
    """
    if task.reader.is_empty:
        return Summary(task.previous or NOTHING_TO_SUMMARISE, 1.0, None)
    unique: dict[str, Candidate] = {}
    for candidate in candidates:
        unique.setdefault(candidate.name, candidate)
    return await _Chain(task, health or CandidateHealth()).run(list(unique.values()))


class _Chain:
    def __init__(self, task: SummaryTask, health: CandidateHealth) -> None:
        self._task = task
        self._health = health
        self._usage: Counter[str] = Counter()
        self._attempts: list[ModelAttempt] = []
        self._now = asyncio.get_running_loop().time
        self._deadline = self._now() + task.policy.summary_timeout_s

    async def run(self, candidates: Sequence[Candidate]) -> Summary:
        in_time = True
        for position, candidate in enumerate(candidates, start=1):
            try:
                written = await self._try(candidate, is_last=position == len(candidates))
            except _Failed as failed:
                in_time = failed.in_time
                self._attempts.append(ModelAttempt(candidate.name, str(failed)))
            else:
                self._attempts.append(ModelAttempt(candidate.name))
                return Summary(
                    written.text, written.coverage, candidate.name, tuple(self._attempts), dict(self._usage)
                )
        raise self._error(in_time)

    async def _try(self, candidate: Candidate, *, is_last: bool) -> Written:
        model = self._built(candidate)
        started = self._now()
        left = self._deadline - started
        deadline = self._deadline if is_last else started + left * _SHARE_OF_DEADLINE
        writer = Writer(model, candidate.window, self._task, deadline=deadline, usage=self._usage)
        try:
            async with asyncio.timeout_at(deadline) as limit:
                return await writer.write()
        except Exception as error:  # a provider's package raises anything; the next candidate is tried
            if limit.expired():
                raise _Failed(f"no summary within {deadline - started:.3g} s", in_time=False) from error
            raise _Failed(describe(error, self._task.policy.redact)) from error

    def _built(self, candidate: Candidate) -> BaseChatModel:
        if reason := self._health.failure(candidate.name):
            raise _Failed(f"not tried, it could not be built within the last minute ({reason})")
        try:
            return candidate.build()
        except Exception as error:
            reason = describe(error, self._task.policy.redact)
            self._health.not_built(candidate.name, reason)
            raise _Failed(f"cannot be built ({reason})") from error

    def _error(self, in_time: bool) -> SummaryGenerationError:
        reasons = "; ".join(f"{attempt.name}: {attempt.error}" for attempt in self._attempts)
        kind = SummaryGenerationError if in_time else SummaryTimeout
        return kind(
            f"No model could summarise ({reasons or 'none is configured'})",
            models_tried=self._attempts,
            usage=dict(self._usage),
        )
