"""MCP servers as tests configure and run them."""

from __future__ import annotations

import asyncio
import json
import os
import socket
import sys
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

SCRIPT = Path(__file__).with_name("mcp_server.py")
STARTED_SECONDS = 20


def stdio(*args: str, **env: str) -> dict[str, Any]:
    """The settings of a server that is started for us."""
    return {"command": sys.executable, "args": [str(SCRIPT), "stdio", *args], "env": env}


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def address(port: int, transport: str = "http") -> str:
    return f"http://127.0.0.1:{port}/{'mcp' if transport == 'http' else 'sse'}"


@asynccontextmanager
async def served(
    port: int, transport: str = "http", env: Mapping[str, str] | None = None
) -> AsyncIterator[asyncio.subprocess.Process]:
    """A server that listens on a port of 127.0.0.1 until the block ends or it is killed."""
    process = await asyncio.create_subprocess_exec(
        sys.executable, str(SCRIPT), transport, str(port), env={**os.environ, **(env or {})}
    )
    try:
        async with asyncio.timeout(STARTED_SECONDS):
            while not await _listens(port):
                assert process.returncode is None, "the server ended before it listened"
                await asyncio.sleep(0.05)
        yield process
    finally:
        if process.returncode is None:
            process.kill()
        await process.wait()


async def _listens(port: int) -> bool:
    try:
        _, writer = await asyncio.open_connection("127.0.0.1", port)
    except OSError:
        return False
    writer.close()
    return True


def noted(path: Path) -> list[dict[str, Any]]:
    """What a server wrote down."""
    return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []


def is_running(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True
