"""The service inside the test's own process, behind a real HTTP server: quick to start, one per test."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx
import uvicorn
import yaml
from langgraph_sdk import get_client
from langgraph_sdk.client import LangGraphClient

from app.commands.listening import KEEP_ALIVE_SECONDS
from app.config import Overrides, load_settings
from app.main import NOW, Clock, Core, create_app
from tests.support.service import config


@dataclass
class Gateway:
    """A served application. ``core`` is what it is made of."""

    url: str
    core: Core

    @property
    def api(self) -> str:
        return f"{self.url}/api"

    def client(self) -> LangGraphClient:
        return get_client(url=self.api)

    def http(self) -> httpx.AsyncClient:
        return httpx.AsyncClient(base_url=self.api, timeout=30)


@asynccontextmanager
async def serving(
    folder: Path,
    database_url: str,
    sections: Mapping[str, Any] | None = None,
    *,
    environ: Mapping[str, str] | None = None,
    work: bool = True,
    now: Clock = NOW,
) -> AsyncIterator[Gateway]:
    """Serve the application with the demo model and ``sections`` of config.yaml on a free port."""
    path = folder / "config.yaml"
    path.write_text(yaml.safe_dump(config(**(sections or {}))))
    variables = {"DATABASE_URL": database_url, **(environ or {})}
    settings = load_settings(path, variables, Overrides(port=0, data_dir=folder / "data"))
    app = create_app(settings, variables, work=work, now=now)
    async with app.router.lifespan_context(app):
        server = uvicorn.Server(
            uvicorn.Config(
                app,
                port=0,
                lifespan="off",
                log_config=None,
                timeout_keep_alive=KEEP_ALIVE_SECONDS,
                timeout_graceful_shutdown=2,
            )
        )
        task = asyncio.create_task(server.serve())
        while not server.started:
            if task.done():
                task.result()
            await asyncio.sleep(0.01)
        port = server.servers[0].sockets[0].getsockname()[1]
        try:
            yield Gateway(f"http://127.0.0.1:{port}", app.state.core)
        finally:
            app.state.core.close_streams()
            server.should_exit = True
            await task
