"""One service for a module of tests, and what a script of the JavaScript clients reports of it."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import pytest_asyncio

from tests.clients import node
from tests.support.gateway import Gateway, serving
from tests.support.postgres import clone

# Tokens at a pace that a client can be seen reading at, and a context that six turns fill.
SECTIONS = {
    "models": [
        {
            "name": "demo",
            "use": "app.chat_models.demo:DemoChatModel",
            "token_delay_s": 0.002,
            "context_window": 6000,
        }
    ],
    # A busy machine is no dead worker: what a run that is taken over leaves behind in a page is another matter.
    "runs": {"stalled_after_s": 30, "concurrency": 16},
    "title": {"enabled": False},
    "summarization": {
        "trigger": {"type": "tokens", "value": 3500},
        "keep": {"type": "messages", "value": 2},
    },
}


@pytest.fixture(scope="session")
def javascript() -> None:
    """The JavaScript clients, installed."""
    if program := node.missing():
        pytest.skip(
            f"NOT TESTED: the official JavaScript clients need {program}, which is not on this machine"
        )
    node.install()


@pytest.fixture(scope="session")
def common_folder(tmp_path_factory: pytest.TempPathFactory, worker_id: str) -> Path:
    """The same for all processes of a test run."""
    own = tmp_path_factory.getbasetemp()
    return own if worker_id == "master" else own.parent


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def served(tmp_path_factory: pytest.TempPathFactory, database_template: str) -> AsyncIterator[Gateway]:
    """One for a module: its scenarios have threads of their own."""
    folder = tmp_path_factory.mktemp("clients")
    async with clone(database_template) as url, serving(folder, url, SECTIONS) as gateway:
        yield gateway
