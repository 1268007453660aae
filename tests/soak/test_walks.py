"""Any history, any sequence of steps: the conversation has every message once, in order, byte for byte."""

from __future__ import annotations

import os
from collections.abc import AsyncIterator

import pytest
import pytest_asyncio

from tests.soak.walk import Walk, World, summed
from tests.support.postgres import clone

pytestmark = pytest.mark.asyncio(loop_scope="module")

WORLDS = {
    "delta": {"checkpoint_mode": "delta"},
    "full": {"checkpoint_mode": "full"},
    "dated": {"checkpoint_mode": "delta", "dynamic_context": {"enabled": True}},
}
WHAT_HAPPENS = {
    "auto",
    "compact",
    "apply",
    "undo",
    "redo",
    "pin",
    "unpin",
    "copy",
    "fork",
    "restart",
    "turn",
    "found",
}


@pytest_asyncio.fixture(scope="module", loop_scope="module", params=[*WORLDS])
async def world(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory, database_template: str
) -> AsyncIterator[World]:
    async with clone(database_template) as url:
        world = World(tmp_path_factory.mktemp("walks"), url, **WORLDS[request.param])
        await world.start()
        yield world
        await world.stop()


@pytest.mark.parametrize("seed", range(2))
async def test_ten_steps_lose_double_and_change_nothing(world: World, seed: int) -> None:
    walk = Walk(world, seed)
    await walk.go(10)
    assert walk.happened["turn"]


@pytest.mark.soak
@pytest.mark.timeout(3600)
async def test_many_walks_lose_double_and_change_nothing(world: World) -> None:
    """``THREADKEEP_SOAK_WALKS`` is how many; a walk that fails names its seed."""
    walks = []
    for seed in range(1000, 1000 + int(os.environ.get("THREADKEEP_SOAK_WALKS", "60"))):
        print(f"walk {seed}")  # noqa: T201 - shown when the test fails
        walks.append(Walk(world, seed))
        await walks[-1].go(10)
    happened = summed(walks)
    print(dict(happened))  # noqa: T201
    assert {name for name in WHAT_HAPPENS if happened[name]} == WHAT_HAPPENS, happened
