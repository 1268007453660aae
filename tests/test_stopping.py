"""A service that is told to stop puts everything in order first."""

from __future__ import annotations

import asyncio
import signal
import sys
import time
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from tests.support.service import config, running

ROOT = Path(__file__).resolve().parents[1]
SLOW = {"messages": [{"role": "user", "content": "/slow 60"}]}


async def first_token(client: Any, thread_id: str, run_id: str) -> None:
    async for part in client.runs.join_stream(thread_id, run_id):
        if part.event == "messages":
            return


@pytest.mark.parametrize("told", [signal.SIGTERM, signal.SIGINT])
async def test_a_service_that_is_told_to_stop_hands_its_runs_to_the_next_one(
    told: signal.Signals, open_folder: Path
) -> None:
    settings = config(server={"shutdown_grace_s": 0.2}, runs={"stalled_after_s": 300})
    async with running(open_folder, settings) as service:
        client = service.client()
        thread_id = (await client.threads.create())["thread_id"]
        run = await client.runs.create(thread_id, "agent", input=SLOW, stream_mode=["messages-tuple"])
        await first_token(client, thread_id, run["run_id"])
        service.process.send_signal(told)
        assert await service.process.wait() == 0
    # No worker counts as lost for minutes: only a run that was handed back goes on now.
    async with running(open_folder, settings) as service:
        client = service.client()
        await client.runs.join(thread_id, run["run_id"])
        assert (await client.runs.get(thread_id, run["run_id"]))["status"] == "success"
        state = await client.threads.get_state(thread_id)
        assert [message["type"] for message in state["values"]["messages"]] == ["human", "ai"]


async def test_streams_and_waits_of_a_service_that_stops_are_cut_off_and_go_on_at_the_next_one(
    open_folder: Path, unused_tcp_port: int
) -> None:
    settings = config(server={"shutdown_grace_s": 0.2}, runs={"stalled_after_s": 300})
    port = ("--port", str(unused_tcp_port))
    async with running(open_folder, settings, *port) as service:
        client = service.client()
        threads = [(await client.threads.create())["thread_id"] for _ in range(2)]
        begun = asyncio.Event()

        async def stream() -> list[Any]:
            parts = []
            async for part in client.runs.stream(
                threads[0], "agent", input=SLOW, stream_mode=["messages-tuple"]
            ):
                parts.append(part)
                if part.event == "messages":
                    begun.set()
            return parts

        streaming = asyncio.create_task(stream())
        waiting = asyncio.create_task(client.runs.wait(threads[1], "agent", input=SLOW))
        await begun.wait()
        stopped_at = time.monotonic()
        assert await service.stop() == 0
        assert time.monotonic() - stopped_at < 10
        assert "Traceback" not in "".join(service.output)
    async with running(open_folder, settings, *port):
        # The official client finds the service again by itself.
        parts = await streaming
        values = await waiting
    ids = [int(part.id) for part in parts]
    assert ids == list(range(1, len(parts) + 1))
    assert [part.data["attempt"] for part in parts if part.event == "metadata"] == [1, 2]
    assert parts[-1].event == "end"
    # Not the half of it that was there when the service stopped.
    assert [message["type"] for message in values["messages"]] == ["human", "ai"]


@pytest.mark.parametrize("command", ["serve", "worker"])
async def test_a_process_that_is_told_to_stop_the_moment_it_is_ready_stops(
    command: str, open_folder: Path
) -> None:
    for _ in range(2):
        async with running(open_folder, config(), command=command) as process:
            assert await process.stop() == 0


@pytest.mark.parametrize("seconds", [1.5, 3.0])
async def test_a_command_that_is_told_to_stop_while_it_prepares_the_database_stops_without_a_word(
    seconds: float, open_folder: Path
) -> None:
    command = ["-m", "app", "migrate", "--data-dir", str(open_folder / "data")]
    process = await asyncio.create_subprocess_exec(
        sys.executable, *command, cwd=ROOT, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.STDOUT
    )
    await asyncio.sleep(seconds)
    with suppress(ProcessLookupError):
        process.send_signal(signal.SIGTERM)
    said, _ = await asyncio.wait_for(process.communicate(), 30)
    # By the signal itself as long as Python only loads its modules, by us later, or done already.
    assert process.returncode in (-signal.SIGTERM, 128 + signal.SIGTERM, 0)
    assert b"Traceback" not in said
    again = await asyncio.create_subprocess_exec(sys.executable, *command, cwd=ROOT)
    assert await asyncio.wait_for(again.wait(), 60) == 0


async def test_a_second_signal_ends_a_service_at_once_and_loses_nothing(open_folder: Path) -> None:
    settings = config(server={"shutdown_grace_s": 30})
    async with running(open_folder, settings) as service:
        client = service.client()
        thread_id = (await client.threads.create())["thread_id"]
        run = await client.runs.create(thread_id, "agent", input=SLOW, stream_mode=["messages-tuple"])
        await first_token(client, thread_id, run["run_id"])
        service.process.send_signal(signal.SIGINT)
        await asyncio.sleep(0.3)
        service.process.send_signal(signal.SIGINT)
        assert await asyncio.wait_for(service.process.wait(), 5) == 128 + signal.SIGINT
    async with running(open_folder, settings) as service:
        client = service.client()
        await client.runs.join(thread_id, run["run_id"])
        state = await client.threads.get_state(thread_id)
        assert [message["type"] for message in state["values"]["messages"]] == ["human", "ai"]
