"""A worker that is watched: what it answers while it starts, works, drains, and what it does not."""

from __future__ import annotations

import asyncio
import signal
import socket
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx
import pytest
import yaml

from tests.support.gateway import Gateway, serving
from tests.support.service import Process, config, running

ROOT = Path(__file__).resolve().parents[1]
SLOW: Any = {"messages": [{"role": "user", "content": "/slow 40"}]}


@dataclass(frozen=True)
class Pair:
    """A gateway that executes nothing, and a worker that does."""

    gateway: Gateway
    worker: Process
    watch: httpx.AsyncClient


@asynccontextmanager
async def paired(folder: Path, database_url: str, **sections: Any) -> AsyncIterator[Pair]:
    own = folder / "worker"
    own.mkdir()
    async with (
        serving(folder, database_url, sections, work=False) as gateway,
        running(
            own, config(**sections), "--port", "0", command="worker", database_url=database_url
        ) as worker,
        httpx.AsyncClient(base_url=worker.url, timeout=30) as watch,
    ):
        yield Pair(gateway, worker, watch)


async def test_a_worker_with_a_port_tells_how_it_fares_and_has_nothing_of_the_api(
    tmp_path: Path, database_url: str
) -> None:
    async with paired(tmp_path, database_url) as pair:
        client = pair.gateway.client()
        thread_id = (await client.threads.create())["thread_id"]
        await client.runs.wait(thread_id, "agent", input={"messages": [{"role": "user", "content": "hello"}]})
        assert pair.worker.url.startswith("http://127.0.0.1:")
        assert (await pair.watch.get("/health")).json() == {"status": "ok"}
        assert (await pair.watch.get("/ready")).json() == {"status": "ready"}
        counted = await pair.watch.get("/metrics")
        assert counted.headers["content-type"].startswith("text/plain")
        assert 'threadkeep_runs_total{graph="agent",status="success"} 1.0' in counted.text
        theirs = (await pair.gateway.http().get("/metrics")).text
        assert names(counted.text) == names(theirs)
        for path in (
            "/",
            "/api/threads/search",
            f"/api/threads/{thread_id}",
            "/api/ready",
            "/info",
            "/docs",
            "/openapi.json",
        ):
            assert (await pair.watch.get(path)).status_code == 404, path
        foreign = await pair.watch.get("/metrics", headers={"host": "evil.example.org"})
        assert foreign.json()["code"] == "host_not_allowed"


def names(exposition: str) -> set[str]:
    """What is told of, whether or not it has happened yet."""
    told = {line.split()[2] for line in exposition.splitlines() if line.startswith("# TYPE")}
    return {name for name in told if not name.endswith("_created")}


@pytest.mark.timeout(60)
async def test_a_worker_that_drains_is_alive_and_not_ready(tmp_path: Path, database_url: str) -> None:
    async with paired(tmp_path, database_url, server={"shutdown_grace_s": 20}) as pair:
        client = pair.gateway.client()
        thread_id = (await client.threads.create())["thread_id"]
        run = await client.runs.create(thread_id, "agent", input=SLOW, stream_mode=["messages-tuple"])
        async for part in client.runs.join_stream(thread_id, run["run_id"]):
            if part.event == "messages":
                break
        pair.worker.process.send_signal(signal.SIGTERM)
        async with asyncio.timeout(10):
            while (answer := await pair.watch.get("/ready")).status_code == 200:
                await asyncio.sleep(0.05)
        assert (answer.status_code, answer.json()["code"]) == (503, "not_ready")
        assert int(answer.headers["retry-after"]) > 0
        assert (await pair.watch.get("/health")).status_code == 200
        assert pair.worker.process.returncode is None
        # What it was at is done to its end by the same worker.
        await client.runs.join(thread_id, run["run_id"])
        assert (await client.runs.get(thread_id, run["run_id"]))["status"] == "success"
        first = await anext(client.runs.join_stream(thread_id, run["run_id"]))
        assert first.data["attempt"] == 1
        async with asyncio.timeout(20):
            assert await pair.worker.process.wait() == 0
        with pytest.raises(httpx.TransportError):
            await pair.watch.get("/health")


async def test_the_metrics_of_a_worker_are_for_administrators_where_there_are_accounts(
    tmp_path: Path, database_url: str
) -> None:
    async with paired(tmp_path, database_url, auth={"type": "api_key"}) as pair:
        assert (await pair.watch.get("/ready")).status_code == 200
        assert (await pair.watch.get("/metrics")).status_code == 401


async def ended(folder: Path, *arguments: str, **sections: Any) -> tuple[int | None, str]:
    """The exit status and the words of a worker that does not start."""
    path = folder / "config.yaml"
    path.write_text(yaml.safe_dump(config(**sections)))
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        *("-m", "app", "worker", "--config", str(path), "--data-dir", str(folder / "data"), *arguments),
        cwd=ROOT,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.STDOUT,
    )
    async with asyncio.timeout(30):
        said, _ = await process.communicate()
    return process.returncode, said.decode()


async def test_a_port_that_is_none_or_taken_stops_the_start_with_one_line(tmp_path: Path) -> None:
    status, said = await ended(tmp_path, "--port", "70000")
    assert (status, "--port" in said, "Traceback" in said) == (2, True, False), said
    status, said = await ended(tmp_path, worker={"port": "many"})
    assert (status, "worker.port" in said) == (2, True), said
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = str(taken.getsockname()[1])
        status, said = await ended(tmp_path, "--port", port)
    assert status == 1
    assert said.strip().splitlines() == [
        f"threadkeep: Cannot listen on 127.0.0.1:{port}: Address already in use; choose another with --port"
    ]
    status, said = await ended(tmp_path, "--port", "0", "--host", "0.0.0.0")
    assert (status, "Others can reach 0.0.0.0" in said) == (2, True), said
    assert not (tmp_path / "data").exists()
