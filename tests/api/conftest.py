"""A served application without a worker: quick to start, and a run stays pending for as long as a test needs."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import httpx
import pytest
from langgraph_sdk.client import LangGraphClient

from tests.support.gateway import Gateway, serving

MAX_BODY_BYTES = 4_000_000


@pytest.fixture
async def idle_gateway(tmp_path: Path, database_url: str) -> AsyncIterator[Gateway]:
    sections = {"server": {"max_body_bytes": MAX_BODY_BYTES}}
    async with serving(tmp_path, database_url, sections, work=False) as served:
        yield served


@pytest.fixture
def client(idle_gateway: Gateway) -> LangGraphClient:
    """The official client."""
    return idle_gateway.client()


@pytest.fixture
async def http(idle_gateway: Gateway) -> AsyncIterator[httpx.AsyncClient]:
    async with idle_gateway.http() as opened:
        yield opened
