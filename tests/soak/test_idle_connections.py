"""Clients that come back on a connection that was idle for as long as they keep one."""

from __future__ import annotations

import asyncio
from pathlib import Path

import httpx
import pytest

from app.commands.listening import KEEP_ALIVE_SECONDS
from tests.support.service import Process, config, running

CLIENTS = 200
THEIR_SECONDS = httpx.Limits().keepalive_expiry


def test_the_service_keeps_connections_longer_than_the_official_client() -> None:
    assert THEIR_SECONDS
    assert KEEP_ALIVE_SECONDS > 10 * THEIR_SECONDS


@pytest.mark.soak
async def test_who_pauses_for_as_long_as_clients_keep_connections_is_answered(
    tmp_path: Path, database_url: str
) -> None:
    assert THEIR_SECONDS
    async with running(tmp_path, config(), database_url=database_url) as process:
        pauses = [THEIR_SECONDS - 0.2 + 0.4 * number / CLIENTS for number in range(CLIENTS)]
        assert set(await asyncio.gather(*(_two_calls(process, pause) for pause in pauses))) == {200}


async def _two_calls(process: Process, pause: float) -> int:
    async with process.http() as client:
        await client.post("/threads", json={})
        await asyncio.sleep(pause)
        return (await client.post("/threads", json={})).status_code
