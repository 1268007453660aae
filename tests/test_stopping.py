"""A service that is told to stop puts everything in order first."""

from __future__ import annotations

import signal
from pathlib import Path
from typing import Any

import pytest

from tests.support.service import config, running

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
