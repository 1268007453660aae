"""Visits by several clients at the same time: how many a second, how long each took, how many failed."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass
from statistics import median

from app.bench.gateway.floor import Floor
from app.bench.gateway.service import Service
from app.bench.gateway.visitor import Visit, VisitError, Visitor

# As many rounds' visits come before those that count, on both sides: whatever is made once, and a plan for each
# statement on each connection, which PostgreSQL makes anew the first five times.
_WARM_UP = 4

Visiting = Callable[[], Awaitable[Visit]]


@dataclass(frozen=True, slots=True)
class Burst:
    """What came of some visits. ``runs_per_s`` counts those that succeeded."""

    visits: tuple[Visit, ...]
    errors: tuple[str, ...]
    seconds: float

    @property
    def runs_per_s(self) -> float:
        return len(self.visits) / self.seconds

    @property
    def first_token_ms(self) -> float:
        """Median."""
        return 1000 * median(visit.first_token_s for visit in self.visits) if self.visits else float("nan")


@dataclass(frozen=True, slots=True)
class LoadFigures:
    """The service beside the floor with the same number of clients, round by round one after the other.

    ``ratio`` is the median of the rounds' own ratios of runs per second, service / floor; ``ratios`` are all of them,
    in order of size. ``first_token_ms`` are medians over all visits, ``first_token_later_ms`` is the median of the
    rounds' own differences. ``cpu_ms`` is processor time of the service's process per run, None where unknown.
    """

    clients: int
    floor_runs_per_s: float
    runs_per_s: float
    ratio: float
    ratios: tuple[float, ...]
    floor_first_token_ms: float
    first_token_ms: float
    first_token_later_ms: float
    tokens: float
    errors: int
    problems: tuple[str, ...]
    cpu_ms: float | None


async def measure_load(service: Service, floor: Floor, clients: int, visits: int, rounds: int) -> LoadFigures:
    """``visits`` each round and side, shared by the clients (at least one each)."""
    each = max(1, visits // clients)
    floors: list[Burst] = []
    bursts: list[Burst] = []
    cpu = 0.0
    for number in range(-1, rounds):
        share = each if number >= 0 else _WARM_UP * each
        below = await burst([floor.visit] * clients, share)
        before = service.usage()
        above = await _burst_of_visitors(service, clients, share)
        after = service.usage()
        if number < 0:
            continue
        floors.append(below)
        bursts.append(above)
        cpu += after.cpu_s - before.cpu_s if before and after else float("nan")
    return _figures(clients, floors, bursts, cpu)


async def _burst_of_visitors(service: Service, clients: int, each: int) -> Burst:
    """With connections of its own: a server closes those that nobody uses for a while."""
    async with AsyncExitStack() as stack:
        visitors = [
            await stack.enter_async_context(Visitor(service.host, service.port)) for _ in range(clients)
        ]
        return await burst([visitor.visit for visitor in visitors], each)


async def burst(clients: Sequence[Visiting], each: int) -> Burst:
    """Every client makes ``each`` visits, one after the other."""
    visits: list[Visit] = []
    errors: list[str] = []

    async def all_of(visit: Visiting) -> None:
        for _ in range(each):
            try:
                visits.append(await visit())
            except VisitError as error:
                errors.append(str(error))

    begun = time.perf_counter()
    await asyncio.gather(*(all_of(visit) for visit in clients))
    return Burst(tuple(visits), tuple(errors), time.perf_counter() - begun)


def _figures(clients: int, floors: Sequence[Burst], bursts: Sequence[Burst], cpu_s: float) -> LoadFigures:
    pairs = list(zip(bursts, floors, strict=True))
    ratios = sorted(ours.runs_per_s / theirs.runs_per_s for ours, theirs in pairs)
    visits = [visit for ours in bursts for visit in ours.visits]
    errors = [error for ours in bursts for error in ours.errors]
    cpu_ms = 1000 * cpu_s / max(1, len(visits))
    return LoadFigures(
        clients=clients,
        floor_runs_per_s=median(theirs.runs_per_s for theirs in floors),
        runs_per_s=median(ours.runs_per_s for ours in bursts),
        ratio=median(ratios),
        ratios=tuple(ratios),
        floor_first_token_ms=median(theirs.first_token_ms for theirs in floors),
        first_token_ms=median(ours.first_token_ms for ours in bursts),
        first_token_later_ms=median(ours.first_token_ms - theirs.first_token_ms for ours, theirs in pairs),
        tokens=median(visit.tokens for visit in visits) if visits else 0,
        errors=len(errors),
        problems=tuple(sorted(set(errors))),
        cpu_ms=cpu_ms if cpu_ms == cpu_ms else None,
    )
