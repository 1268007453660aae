"""Fixtures every test may use: a database of its own, cloned from a migrated template."""

from __future__ import annotations

import gc
import tempfile
from collections.abc import AsyncIterator, Iterator
from contextlib import ExitStack
from functools import cache
from pathlib import Path
from typing import Any

import httpx
import httpx._transports.default
import pytest

from app.persistence.database import Database, open_database
from tests.support.gateway import Gateway, serving
from tests.support.places import quick_folder
from tests.support.postgres import clone, template_database

pytest_plugins = ["tests.support.provider", "tests.support.rig"]

# Every client of the suite reads the certificates of all authorities, 16 ms each, and speaks HTTP on this machine. One
# context is enough for all of them.
httpx._transports.default.create_ssl_context = cache(httpx._transports.default.create_ssl_context)

_TEMPLATE = pytest.StashKey[str]()
_CLEANUP = pytest.StashKey[ExitStack]()


@pytest.hookimpl(optionalhook=True)
def pytest_configure_node(node: Any) -> None:
    # Under pytest-xdist the controller runs the server: it outlives every worker, so none of them has to wait
    # for another at the end, and the schema is made once.
    stash = node.config.stash
    if _TEMPLATE not in stash:
        stash[_CLEANUP] = ExitStack()
        stash[_TEMPLATE] = stash[_CLEANUP].enter_context(template_database())
    node.workerinput["template"] = stash[_TEMPLATE]


def pytest_collection_finish() -> None:
    # Modules and five thousand tests stay until the end: nothing to look through for garbage again and again.
    gc.collect()
    gc.freeze()


def pytest_unconfigure(config: pytest.Config) -> None:
    if _CLEANUP in config.stash:
        config.stash[_CLEANUP].close()


@pytest.fixture(scope="session")
def database_template(request: pytest.FixtureRequest) -> Iterator[str]:
    """The URL of a migrated database that is only cloned, never connected to."""
    worker_input = getattr(request.config, "workerinput", None)
    if worker_input is not None:
        yield worker_input["template"]
        return
    with template_database() as url:
        yield url


@pytest.fixture
async def database_url(database_template: str) -> AsyncIterator[str]:
    """The URL of a migrated, empty database that belongs to this test alone."""
    async with clone(database_template) as url:
        yield url


@pytest.fixture
async def database(database_url: str) -> AsyncIterator[Database]:
    """An open pool on this test's own database."""
    async with open_database(database_url, min_size=1, max_size=10) as opened:
        yield opened


@pytest.fixture
def open_folder() -> Iterator[Path]:
    """A folder that the account of an embedded server may enter; pytest's own folders are closed to others."""
    with tempfile.TemporaryDirectory(
        prefix="threadkeep-test-", dir=quick_folder(), ignore_cleanup_errors=True
    ) as name:
        folder = Path(name)
        folder.chmod(0o755)
        yield folder


@pytest.fixture
async def gateway(tmp_path: Path, database_url: str) -> AsyncIterator[Gateway]:
    """The whole service with the demo model, on this test's own database, behind a real HTTP server."""
    async with serving(tmp_path, database_url) as served:
        yield served
