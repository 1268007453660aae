"""Several gateways and workers on one database, and what happens when one of them is killed."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from tests.support.service import Process, config, running

MESSAGES = {"messages": [{"role": "user", "content": "hello"}]}
SLOW = {"messages": [{"role": "user", "content": "/slow 100"}]}


@dataclass
class Fleet:
    gateways: list[Process]
    workers: list[Process]


@asynccontextmanager
async def fleet(folder: Path, database_url: str, gateways: int, workers: int) -> AsyncIterator[Fleet]:
    """Gateways that execute nothing themselves, and workers that do; all of them share the workspace folder."""
    async with AsyncExitStack() as stack:

        async def start(number: int, command: str, *arguments: str) -> Process:
            own = folder / f"{command}{number}"
            own.mkdir()
            process = running(own, config(), *arguments, command=command, database_url=database_url)
            return await stack.enter_async_context(process)

        yield Fleet(
            [await start(n, "serve", "--no-worker") for n in range(gateways)],
            [await start(n, "worker") for n in range(workers)],
        )


async def first_token(client: Any, thread_id: str, run_id: str) -> None:
    async for part in client.runs.join_stream(thread_id, run_id):
        if part.event == "messages":
            return


async def worker_of(fleet: Fleet, database: Any, run_id: str) -> Process:
    """The process that executes the run now."""
    async with database.pool.connection() as conn:
        row = await (await conn.execute("SELECT worker FROM runs WHERE run_id = %s", (run_id,))).fetchone()
    pid = int(row["worker"].rpartition(":")[2])
    return next(worker for worker in fleet.workers if worker.process.pid == pid)


@pytest.mark.timeout(120)
async def test_a_thread_begun_at_one_gateway_is_streamed_and_continued_at_another(
    tmp_path: Path, database_url: str
) -> None:
    async with fleet(tmp_path, database_url, gateways=2, workers=2) as running_fleet:
        first, second = (gateway.client() for gateway in running_fleet.gateways)
        thread_id = (await first.threads.create())["thread_id"]
        run = await first.runs.create(thread_id, "agent", input=SLOW, stream_mode=["messages-tuple"])
        here = [part async for part in second.runs.join_stream(thread_id, run["run_id"])]
        there = [part async for part in first.runs.join_stream(thread_id, run["run_id"])]
        assert here == there
        assert here[-1].event == "end"
        values = await second.runs.wait(thread_id, "agent", input=MESSAGES)
        assert [message["type"] for message in values["messages"]] == ["human", "ai"] * 2


@pytest.mark.timeout(120)
async def test_a_run_whose_worker_is_killed_is_finished_by_another(
    tmp_path: Path, database_url: str, database: Any
) -> None:
    async with fleet(tmp_path, database_url, gateways=1, workers=2) as running_fleet:
        client = running_fleet.gateways[0].client()
        thread_id = (await client.threads.create())["thread_id"]
        run = await client.runs.create(thread_id, "agent", input=SLOW, stream_mode=["messages-tuple"])
        await first_token(client, thread_id, run["run_id"])
        (await worker_of(running_fleet, database, run["run_id"])).kill()
        parts = [part async for part in client.runs.join_stream(thread_id, run["run_id"])]
        attempts = [part.data["attempt"] for part in parts if part.event == "metadata"]
        assert attempts == [1, 2]
        assert (await client.runs.get(thread_id, run["run_id"]))["status"] == "success"
        state = await client.threads.get_state(thread_id)
        assert [message["type"] for message in state["values"]["messages"]] == ["human", "ai"]
        values = await client.runs.wait(thread_id, "agent", input=MESSAGES)
        assert len(values["messages"]) == 4


@pytest.mark.timeout(120)
async def test_a_run_that_kills_every_worker_ends_with_an_error_and_frees_the_thread(
    tmp_path: Path, database_url: str, database: Any
) -> None:
    async with AsyncExitStack() as stack:
        settings = config(runs={"stalled_after_s": 2, "max_attempts": 1})
        folders = [tmp_path / name for name in ("gateway", "first", "second")]
        for folder in folders:
            folder.mkdir()
        gateway = await stack.enter_async_context(
            running(folders[0], settings, "--no-worker", database_url=database_url)
        )
        killed = await stack.enter_async_context(
            running(folders[1], settings, command="worker", database_url=database_url)
        )
        client = gateway.client()
        thread_id = (await client.threads.create())["thread_id"]
        run = await client.runs.create(thread_id, "agent", input=SLOW, stream_mode=["messages-tuple"])
        await first_token(client, thread_id, run["run_id"])
        killed.kill()
        await stack.enter_async_context(
            running(folders[2], settings, command="worker", database_url=database_url)
        )
        parts = [part async for part in client.runs.join_stream(thread_id, run["run_id"])]
        assert [part.event for part in parts[-2:]] == ["error", "end"]
        assert parts[-2].data["code"] == "worker_lost"
        assert (await client.runs.get(thread_id, run["run_id"]))["status"] == "error"
        values = await client.runs.wait(thread_id, "agent", input=MESSAGES)
        assert values["messages"][-1]["type"] == "ai"


@pytest.mark.timeout(120)
async def test_a_worker_that_is_told_to_stop_hands_its_run_to_another(
    tmp_path: Path, database_url: str, database: Any
) -> None:
    async with AsyncExitStack() as stack:
        settings = config(server={"shutdown_grace_s": 0.2})
        folders = [tmp_path / name for name in ("gateway", "first", "second")]
        for folder in folders:
            folder.mkdir()
        gateway = await stack.enter_async_context(
            running(folders[0], settings, "--no-worker", database_url=database_url)
        )
        stopped = await stack.enter_async_context(
            running(folders[1], settings, command="worker", database_url=database_url)
        )
        client = gateway.client()
        thread_id = (await client.threads.create())["thread_id"]
        run = await client.runs.create(thread_id, "agent", input=SLOW, stream_mode=["messages-tuple"])
        await first_token(client, thread_id, run["run_id"])
        assert await stopped.stop() == 0
        assert (await client.runs.get(thread_id, run["run_id"]))["status"] == "pending"
        await stack.enter_async_context(
            running(folders[2], settings, command="worker", database_url=database_url)
        )
        await client.runs.join(thread_id, run["run_id"])
        assert (await client.runs.get(thread_id, run["run_id"]))["status"] == "success"
        state = await client.threads.get_state(thread_id)
        assert [message["type"] for message in state["values"]["messages"]] == ["human", "ai"]
