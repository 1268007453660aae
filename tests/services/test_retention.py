"""Retention: what is old is pruned or removed without being asked for, and nothing else is."""

from __future__ import annotations

import asyncio
import os
import sys
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import pytest_asyncio
import yaml

from tests.support.rig import SMALL, Rig, rigged
from tests.support.service import config
from tests.support.threads import Thread, new_thread, talk

pytestmark = pytest.mark.asyncio(loop_scope="module")

HOUR_DAYS = 1 / 24
PATIENCE_S = 20
ROOT = Path(__file__).resolve().parents[2]


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def served(tmp_path_factory: pytest.TempPathFactory, database_template: str) -> AsyncIterator[Rig]:
    retention = {
        "prune_checkpoints_after_days": HOUR_DAYS,
        "delete_events_after_days": HOUR_DAYS,
        "delete_threads_after_days": 24 * HOUR_DAYS,
        "interval_s": 0.2,
    }
    folder = tmp_path_factory.mktemp("retention")
    async with rigged(folder, database_template, SMALL, retention=retention) as rig:
        yield rig


async def age(rig: Rig, thread: Thread, hours: int) -> None:
    async with rig.gateway.core.database.pool.connection() as connection:
        past = "now() - make_interval(hours => %s)"
        await connection.execute(
            f"UPDATE threads SET updated_at = {past} WHERE thread_id = %s", (hours, thread.id)
        )
        await connection.execute(
            f"UPDATE runs SET finished_at = {past} WHERE thread_id = %s", (hours, thread.id)
        )


async def checkpoints(thread: Thread) -> int:
    return len((await thread.http.post(f"/threads/{thread.id}/history", json={"limit": 1000})).json())


async def test_what_is_old_is_pruned_and_its_events_go_and_it_reads_as_before(rig: Rig) -> None:
    async with new_thread(rig.gateway) as old, new_thread(rig.gateway) as young:
        for thread in (old, young):
            await thread.run("one")
            await thread.run("two")
        said, before = await old.messages(), await checkpoints(young)
        await age(rig, old, 2)
        async with asyncio.timeout(PATIENCE_S):
            while await checkpoints(old) > 1 or await events(rig, old) > 2:
                await asyncio.sleep(0.05)
        assert await old.messages() == said
        assert await checkpoints(young) == before
        assert await events(rig, young) == 4
        run = (await old.client.runs.list(old.id))[0]["run_id"]
        stream = await old.http.get(f"/threads/{old.id}/runs/{run}/stream")
        assert stream.status_code == 200
        assert "event: end" in stream.text
        await old.run("three")
        assert len(await old.messages()) == 6


async def events(rig: Rig, thread: Thread) -> int:
    async with rig.gateway.core.database.pool.connection() as connection:
        cursor = await connection.execute(
            "SELECT count(*) AS n FROM run_events JOIN runs USING (run_id) WHERE thread_id = %s", (thread.id,)
        )
        row = await cursor.fetchone()
        return int(row["n"]) if row else 0


async def test_what_is_very_old_is_removed(rig: Rig) -> None:
    async with new_thread(rig.gateway, talk(2)) as old, new_thread(rig.gateway, talk(2)) as busy:
        await busy.client.runs.create(busy.id, "agent", input=None, after_seconds=60)
        await age(rig, busy, 25)
        await age(rig, old, 25)
        async with asyncio.timeout(PATIENCE_S):
            while (await old.http.get(f"/threads/{old.id}")).status_code != 404:
                await asyncio.sleep(0.05)
        assert len(await busy.messages()) == 4


async def test_the_command_erases_a_thread(rig: Rig, tmp_path: Path) -> None:
    async with new_thread(rig.gateway, talk(1)) as thread:
        assert await erase(rig, tmp_path, "--thread", thread.id) == (0, "Erased 1 thread.\n", "")
        assert (await thread.http.get(f"/threads/{thread.id}")).status_code == 404


async def erase(rig: Rig, folder: Path, *options: str) -> tuple[int | None, str, str]:
    """Exit status and both outputs of the command, run on the same database as the service."""
    (folder / "config.yaml").write_text(yaml.safe_dump(config(logging={"level": "error"})))
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        *("-m", "app", "erase", "--config", str(folder / "config.yaml"), "--data-dir", str(folder), *options),
        cwd=ROOT,
        env={**os.environ, "DATABASE_URL": rig.url},
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )
    said, complained = await asyncio.wait_for(process.communicate(), 60)
    return process.returncode, said.decode(), complained.decode()
