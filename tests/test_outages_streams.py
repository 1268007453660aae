"""Clients in the middle of streams: PostgreSQL is restarted, one of them reads slowly, one of them is gone."""

from __future__ import annotations

import asyncio
import json
import re
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

import httpx
import pytest

from app.persistence.scratch import restart_server
from tests.support.gateway import Gateway
from tests.support.service import config, running

TOKENS = 60
SLOW: Any = {"messages": [{"role": "user", "content": f"/slow {TOKENS}"}]}
HELLO: Any = {"messages": [{"role": "user", "content": "hello"}]}


class Follower:
    """One client with one run."""

    def __init__(self, client: Any, thread_id: str) -> None:
        self._client = client
        self.thread_id = thread_id
        self.parts: list[Any] = []
        self.begun = asyncio.Event()

    async def follow(self) -> None:
        stream = self._client.runs.stream(
            self.thread_id, "agent", input=SLOW, stream_mode=["messages-tuple", "values"]
        )
        async for part in stream:
            self.parts.append(part)
            if part.event == "messages":
                self.begun.set()

    @property
    def said(self) -> str:
        return "".join(part.data[0]["content"] for part in self.parts if part.event == "messages")


@pytest.mark.parametrize("streams", [4, pytest.param(20, marks=pytest.mark.soak)])
@pytest.mark.timeout(180)
async def test_nothing_of_any_stream_is_lost_when_postgresql_is_restarted(
    streams: int, open_folder: Path
) -> None:
    settings = config(runs={"stalled_after_s": 20, "concurrency": streams})
    async with running(open_folder, settings) as service, AsyncExitStack() as stack:
        http = await stack.enter_async_context(service.http())
        client = service.client()
        followers = [Follower(client, (await client.threads.create())["thread_id"]) for _ in range(streams)]
        tasks = [asyncio.create_task(follower.follow()) for follower in followers]
        for follower in followers:
            await follower.begun.wait()
        await asyncio.to_thread(restart_server, open_folder / "data")
        refused = await answers_until_ready(http, f"/threads/{followers[0].thread_id}")
        await asyncio.gather(*tasks)
        for follower in followers:
            parts = follower.parts
            assert [int(part.id) for part in parts] == list(range(1, len(parts) + 1))
            assert [part.event for part in parts].count("end") == 1
            assert not any(part.event == "error" for part in parts)
            values: Any = (await client.threads.get_state(follower.thread_id))["values"]
            human, reply = values["messages"]
            assert (human["type"], reply["type"]) == ("human", "ai")
            assert follower.said == reply["content"]
            assert (await client.threads.get(follower.thread_id))["status"] == "idle"
        # Whoever asked meanwhile was told to come back, or waited.
        assert all(status == 503 and retry > 0 for status, retry in refused)
        await client.runs.wait(followers[0].thread_id, "agent", input=HELLO)


async def answers_until_ready(http: httpx.AsyncClient, path: str) -> list[tuple[int, int]]:
    """Status and Retry-After of every answer before the first good one. The process itself lives all the while."""
    refused: list[tuple[int, int]] = []
    async with asyncio.timeout(60):
        while True:
            assert (await http.get("/health")).status_code == 200
            response = await http.get(path)
            if response.status_code == 200:
                return refused
            refused.append((response.status_code, int(response.headers.get("retry-after", "0"))))


async def raw_stream(gateway: Gateway, thread_id: str, body: dict[str, Any]) -> tuple[Any, Any]:
    """A connection on which a run was asked for, and of whose answer nothing was read yet."""
    host, _, port = gateway.url.removeprefix("http://").partition(":")
    reader, writer = await asyncio.open_connection(host, int(port), limit=2**16)
    content = json.dumps({"assistant_id": "agent", **body}).encode()
    head = (
        f"POST /api/threads/{thread_id}/runs/stream HTTP/1.1\r\nhost: {host}\r\nconnection: close\r\n"
        f"content-type: application/json\r\ncontent-length: {len(content)}\r\n\r\n"
    )
    writer.write(head.encode() + content)
    await writer.drain()
    return reader, writer


async def over(client: Any, thread_id: str) -> str:
    """The status of the thread's only run when it has ended."""
    async with asyncio.timeout(30):
        while not (runs := await client.runs.list(thread_id)):
            await asyncio.sleep(0.02)
    await client.runs.join(thread_id, runs[0]["run_id"])
    return str((await client.runs.list(thread_id))[0]["status"])


@pytest.mark.timeout(60)
async def test_a_run_does_not_wait_for_a_client_that_reads_slowly_and_the_client_misses_nothing(
    gateway: Gateway,
) -> None:
    client = gateway.client()
    thread_id = (await client.threads.create())["thread_id"]
    large = {"messages": [{"role": "user", "content": "word " * 300_000}]}
    body = {"input": large, "stream_mode": ["values", "updates", "messages-tuple", "debug"]}
    reader, writer = await raw_stream(gateway, thread_id, body)
    assert await over(client, thread_id) == "success"
    # Nothing was read so far: more is waiting than the buffers of a connection hold.
    received = await reader.read()
    writer.close()
    ids = [int(number) for number in re.findall(rb"^id: (\d+)\r?$", received, re.MULTILINE)]
    assert len(received) > 5_000_000
    assert ids == list(range(1, len(ids) + 1))
    assert b"event: end" in received


@pytest.mark.parametrize(("on_disconnect", "status"), [("continue", "success"), ("cancel", "interrupted")])
@pytest.mark.timeout(60)
async def test_a_client_that_vanishes_leaves_nothing_behind(
    on_disconnect: str, status: str, gateway: Gateway
) -> None:
    client = gateway.client()
    thread_id = (await client.threads.create())["thread_id"]
    body = {"input": SLOW, "stream_mode": ["messages-tuple"], "on_disconnect": on_disconnect}
    reader, writer = await raw_stream(gateway, thread_id, body)
    await reader.readuntil(b"event: messages")
    writer.transport.abort()
    assert await over(client, thread_id) == status
    async with asyncio.timeout(10):
        while gateway.core.hub.watched()["run"]:
            await asyncio.sleep(0.02)
    assert (await client.threads.get(thread_id))["status"] != "busy"
