"""What a load balancer sees of a process that starts, works and stops."""

from __future__ import annotations

import asyncio
from contextlib import AsyncExitStack
from pathlib import Path

import httpx
import pytest

from app.persistence.database import connect
from app.persistence.schema import LOCK_KEY
from tests.support.service import config, running

PATHS = ("/ready", "/api/ready", "/api/threads/00000000-0000-4000-8000-000000000000", "/metrics", "/")


async def answered(http: httpx.AsyncClient, path: str) -> httpx.Response:
    async with asyncio.timeout(30):
        while True:
            try:
                return await http.get(path)
            except httpx.ConnectError:
                await asyncio.sleep(0.05)


@pytest.mark.timeout(90)
async def test_a_process_that_waits_for_a_migration_lives_and_is_not_ready(
    tmp_path: Path, database_url: str, unused_tcp_port: int
) -> None:
    url = f"http://127.0.0.1:{unused_tcp_port}"
    port = ("--port", str(unused_tcp_port))
    async with (
        AsyncExitStack() as stack,
        await connect(database_url) as migrating,
        httpx.AsyncClient(base_url=url) as http,
    ):
        await migrating.execute("SELECT pg_advisory_lock(%s)", (LOCK_KEY,))
        starting = asyncio.create_task(
            stack.enter_async_context(running(tmp_path, config(), *port, database_url=database_url))
        )
        assert (await answered(http, "/health")).status_code == 200
        for path in PATHS:
            response = await http.get(path)
            assert response.status_code == 503
            assert response.json()["code"] == "not_ready"
            assert int(response.headers["retry-after"]) > 0
        assert not starting.done()
        await migrating.execute("SELECT pg_advisory_unlock(%s)", (LOCK_KEY,))
        service = await starting
        assert (await http.get("/ready")).status_code == 200
        assert await service.stop() == 0
        with pytest.raises(httpx.ConnectError):
            await http.get("/ready")


@pytest.mark.timeout(90)
async def test_a_process_that_is_told_to_stop_while_it_waits_for_a_migration_stops(
    tmp_path: Path, database_url: str, unused_tcp_port: int
) -> None:
    port = ("--port", str(unused_tcp_port))
    async with (
        await connect(database_url) as migrating,
        httpx.AsyncClient(base_url=f"http://127.0.0.1:{unused_tcp_port}") as http,
    ):
        await migrating.execute("SELECT pg_advisory_lock(%s)", (LOCK_KEY,))

        async def start() -> None:
            async with running(tmp_path, config(), *port, database_url=database_url):
                pass

        starting = asyncio.create_task(start())
        assert (await answered(http, "/health")).status_code == 200
        # What the support does when it gives up waiting: SIGTERM, and the process has to end in time.
        starting.cancel()
        with pytest.raises(asyncio.CancelledError):
            await starting
