"""Measuring: two ways of doing the same thing side by side, and the memory that something takes at its peak."""

from __future__ import annotations

import asyncio
import gc
import time
import tracemalloc
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from statistics import median
from typing import Generic, TypeVar

T = TypeVar("T")

_LEAST_ROUNDS = 3


@dataclass(frozen=True, slots=True)
class Effort:
    """How often to repeat a measurement: ``rounds`` times, but no longer than ``seconds`` (at least thrice)."""

    rounds: int
    seconds: float

    def each(self) -> Iterator[int]:
        """Numbers of the rounds."""
        deadline = time.monotonic() + self.seconds
        for number in range(max(self.rounds, _LEAST_ROUNDS)):
            if number >= _LEAST_ROUNDS and time.monotonic() > deadline:
                return
            yield number


@dataclass(frozen=True, slots=True)
class Compared:
    """Medians over all rounds, in ms; ``ratio`` is the median of the rounds' own ratios, ours / theirs."""

    ours_ms: float
    theirs_ms: float
    ratio: float
    rounds: int


@dataclass(frozen=True, slots=True)
class Contest(Generic[T]):
    """Two ways to work on what ``prepare`` makes for each round; preparing is not measured."""

    prepare: Callable[[], T]
    ours: Callable[[T], Awaitable[object]]
    theirs: Callable[[T], Awaitable[object]]

    async def held(self, effort: Effort) -> Compared:
        """Round by round one after the other, each first in every other round."""
        pairs = []
        with no_collection():
            for number in effort.each():
                await asyncio.sleep(0)  # the one place where the bench can be stopped
                given = self.prepare()
                if number % 2:
                    ours = await cpu_ms(self.ours, given)
                    theirs = await cpu_ms(self.theirs, given)
                else:
                    theirs = await cpu_ms(self.theirs, given)
                    ours = await cpu_ms(self.ours, given)
                pairs.append((ours, theirs))
        return Compared(
            ours_ms=median(ours for ours, _ in pairs),
            theirs_ms=median(theirs for _, theirs in pairs),
            ratio=median(ours / theirs for ours, theirs in pairs),
            rounds=len(pairs),
        )


async def cpu_ms(work: Callable[[T], Awaitable[object]], given: T) -> float:
    """Milliseconds of this thread's processor: what others do on the machine does not count."""
    start = time.thread_time_ns()
    await work(given)
    return (time.thread_time_ns() - start) / 1e6


@contextmanager
def no_collection() -> Iterator[None]:
    """Without the cyclic garbage collector, which would strike whoever happens to be at work."""
    enabled = gc.isenabled()
    gc.collect()
    gc.disable()
    try:
        yield
    finally:
        if enabled:
            gc.enable()


@contextmanager
def traced() -> Iterator[Callable[[], int]]:
    """Yields a function that gives the most bytes that new objects held at once since it was called last."""
    tracemalloc.start()

    def peak() -> int:
        _, most = tracemalloc.get_traced_memory()
        tracemalloc.reset_peak()
        return most

    try:
        yield peak
    finally:
        tracemalloc.stop()
