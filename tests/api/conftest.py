"""A served application without a worker: quick to start, and a run stays pending for as long as a test needs."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import httpx
import pytest
import pytest_asyncio
from langgraph_sdk.client import LangGraphClient

from tests.support.gateway import Gateway, serving
from tests.support.postgres import clone

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


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def shared_gateway(
    tmp_path_factory: pytest.TempPathFactory, database_template: str
) -> AsyncIterator[Gateway]:
    """One for a whole module of tests that leave nothing behind which another would see."""
    folder = tmp_path_factory.mktemp("gateway")
    sections = {"server": {"max_body_bytes": MAX_BODY_BYTES}}
    async with (
        clone(database_template) as database_url,
        serving(folder, database_url, sections, work=False) as served,
    ):
        yield served


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def shared_http(shared_gateway: Gateway) -> AsyncIterator[httpx.AsyncClient]:
    async with shared_gateway.http() as opened:
        yield opened
