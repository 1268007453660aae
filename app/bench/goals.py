"""What the figures are to be, and whether they are."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from app.bench.hook import HookFigures
from app.bench.planning import PlanningFigures
from app.bench.suite import Figures

_GOALS_FROM = 10_000


@dataclass(frozen=True, slots=True)
class Goal:
    """``value`` is to be at most ``limit``."""

    name: str
    value: float
    limit: float

    @property
    def met(self) -> bool:
        return self.value <= self.limit


def goals_of(figures: Figures) -> list[Goal]:
    """The goals that can be judged: they are set for threads of 10,000 messages."""
    return [*_of_hook(figures.hook), *_of_planning(figures.planning)]


def _of_hook(figures: Sequence[HookFigures]) -> Iterator[Goal]:
    growing = sorted((f for f in figures if f.case == "growing"), key=lambda f: f.messages)
    large = growing[-1] if growing else None
    if large is None or large.messages < _GOALS_FROM:
        return
    yield Goal("hook that does nothing / LangChain's, after the first call", large.ratio, 0.2)
    first = next(f for f in figures if f.case == "first" and f.messages == large.messages)
    if (small := growing[0]) is not large:
        known = (large.threadkeep_ms - small.threadkeep_ms) / (large.messages - small.messages)
        yield Goal(
            "a known message / a new one, in the hook", known / (first.threadkeep_ms / first.messages), 0.05
        )


def _of_planning(figures: Sequence[PlanningFigures]) -> Iterator[Goal]:
    for measured in figures:
        if measured.messages >= _GOALS_FROM:
            yield Goal("seconds to plan and render a compaction", measured.total_ms / 1000, 1.0)
            yield Goal("memory for it / size of the thread's text", measured.peak_ratio, 3.0)
