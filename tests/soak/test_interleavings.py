"""Random operations on threads of two replicas and a worker that is killed, and then everything that must be so."""

from __future__ import annotations

import os
import time
from pathlib import Path

import pytest

from app.persistence.database import connect
from tests.soak.fleet import fleet
from tests.soak.invariants import Rest
from tests.soak.operations import Clients

SEED = int(os.environ.get("THREADKEEP_SOAK_SEED") or time.time())


async def operated(folder: Path, url: str, threads: int, operations: int, kills: int) -> None:
    """Raises AssertionError with the seed and with all that is wrong."""
    print(f"THREADKEEP_SOAK_SEED={SEED}")  # noqa: T201 - shown when the test fails
    async with fleet(folder, url, stalled_after_s=5) as started, await connect(url) as database:
        clients = Clients(started, SEED)
        rest = Rest(started, clients, database)
        begun = time.monotonic()
        await clients.begin(threads)
        await clients.operate(operations, kills)
        took = time.monotonic() - begun
        stuck = await rest.comes(90)
        assert not stuck, (SEED, stuck)
        problems = [*await rest.problems(), *await rest.usable()]
        assert not problems, "\n".join((str(SEED), *problems))
        taken_over = await rest.taken_over()
        print(f"{took:.0f} s, {taken_over} runs taken over", sorted(clients.answers.items()))  # noqa: T201 - the figures of a long test
        assert sum(count for (_, status), count in clients.answers.items() if status == 200) > operations / 4
        assert len(started.killed) == kills
        assert len(rest.spans()) > operations / 8


@pytest.mark.timeout(170)
async def test_a_few_operations_at_once_keep_all_that_must_be_so(tmp_path: Path, database_url: str) -> None:
    await operated(tmp_path, database_url, threads=4, operations=80, kills=1)


@pytest.mark.soak
@pytest.mark.timeout(7200)
@pytest.mark.parametrize("threads", [20, 5])
async def test_a_thousand_operations_at_once_keep_all_that_must_be_so(
    tmp_path: Path, database_url: str, threads: int
) -> None:
    """``THREADKEEP_SOAK_OPERATIONS`` is how many; ``THREADKEEP_SOAK_SEED`` repeats what clients decide."""
    count = int(os.environ.get("THREADKEEP_SOAK_OPERATIONS", "1000"))
    await operated(tmp_path, database_url, threads=threads, operations=count, kills=max(1, count // 100))
