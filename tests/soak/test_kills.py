"""``kill -9`` at moments of a compaction, of a draft that is applied, of undo and redo (rule F1)."""

from __future__ import annotations

import asyncio
import os
import time
from collections import Counter
from collections.abc import AsyncIterator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from app.persistence.database import connect
from tests.soak.kills import ATTEMPTS, PHASES, Attempt, Phase, Scene, prepared, run_survived, strike, survived

SEED = int(os.environ.get("THREADKEEP_SOAK_SEED") or time.time())
Hits = Counter[tuple[str, str]]


@asynccontextmanager
async def observed(folder: Path, url: str, **options: Any) -> AsyncIterator[Scene]:
    async with await connect(url) as database:
        scene = Scene(folder, url, database, SEED, **options)
        async with scene.observed():
            yield scene


async def killed_at(scene: Scene, moments: Sequence[tuple[str, Phase]]) -> Hits:
    """Kill a process for each of the moments, and look at what is left. Returns how far what it was at had come."""
    hits: Hits = Counter()
    left: list[Attempt] = []
    async with AsyncExitStack() as stack:
        for name, phase in moments:
            async with scene.victim() as victim:
                # The run of the last victim is this one's first.
                await _finished(scene, left)
                attempts = [await prepared(stack, scene, each) for each in ATTEMPTS]
                await strike(scene, victim, attempts, name, phase)
            hits.update((attempt.name, attempt.hit) for attempt in attempts)
            print(f"{SEED} {name} {phase}:", {attempt.name: attempt.hit for attempt in attempts})  # noqa: T201
            left = [attempt for attempt in attempts if attempt.name == "auto"]
            await asyncio.gather(*(survived(scene, each) for each in attempts if each not in left))
        async with scene.worker():
            await _finished(scene, left)
    return hits


async def _finished(scene: Scene, left: Sequence[Attempt]) -> None:
    for attempt in left:
        await run_survived(scene, attempt)


@pytest.mark.timeout(120)
async def test_killed_between_its_writes_it_has_happened_or_can_happen_still(
    tmp_path: Path, database_url: str
) -> None:
    async with observed(tmp_path, database_url, slowness_s=0.4, abrupt=True) as scene:
        hits = await killed_at(scene, [("manual", "archived"), ("auto", "stored")])
    assert {phase for _, phase in hits} >= {"archived", "stored"}, (SEED, hits)


@pytest.mark.soak
@pytest.mark.timeout(7200)
async def test_killed_at_random_moments_nothing_is_lost_or_doubled(tmp_path: Path, database_url: str) -> None:
    """``THREADKEEP_SOAK_KILLS`` processes are killed. Every kill hits five operations, each somewhere else."""
    count = int(os.environ.get("THREADKEEP_SOAK_KILLS", "200"))
    async with observed(tmp_path, database_url) as scene:
        moments = [(scene.chance.choice([*ATTEMPTS]), scene.chance.choice(PHASES)) for _ in range(count)]
        hits = await killed_at(scene, moments)
    print(sorted(hits.items()))  # noqa: T201 - the figures of a long test
    phases = Counter(phase for _, phase in hits.elements())
    assert all(phases[phase] >= count // 4 for phase in PHASES), hits
    assert {name for name, phase in hits if phase in ("archived", "stored")} == {*ATTEMPTS}, hits
