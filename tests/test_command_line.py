"""What people are told when the service starts, or cannot."""

from __future__ import annotations

import asyncio
import os
import socket
import sys
from pathlib import Path
from subprocess import run
from typing import Any

import pytest

from app.commands.report import startup_report
from tests.support.gateway import Gateway, serving

ROOT = Path(__file__).resolve().parents[1]


def imported(*arguments: str, **environ: str) -> tuple[int, set[str]]:
    """The exit status of a command, and the modules that it imported on its way there."""
    ended = run(
        [sys.executable, "-X", "importtime", "-m", "app", *arguments],
        cwd=ROOT,
        env={**os.environ, **environ},
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )
    told = (line.rpartition("|")[2].strip() for line in ended.stderr.splitlines() if "|" in line)
    return ended.returncode, {name for name in told if name}


@pytest.mark.parametrize(
    ("arguments", "status"),
    [(("--help",), 0), (("bench", "recall", "--help"), 0), (("serve", "--prot", "1"), 2), (("erase",), 2)],
)
def test_help_and_wrong_arguments_are_answered_without_loading_the_service(
    arguments: tuple[str, ...], status: int
) -> None:
    ended, modules = imported(*arguments)
    assert ended == status
    assert "app.commands.arguments" in modules
    assert not {name for name in modules if name.startswith(("app.config", "pydantic", "langchain", "uv"))}


async def test_a_command_loads_nothing_of_the_others_and_no_migrations_that_were_made(
    tmp_path: Path, database_url: str
) -> None:
    (tmp_path / "config.yaml").touch()
    command = ("migrate", "--config", str(tmp_path / "config.yaml"), "--data-dir", str(tmp_path))
    ended, modules = await asyncio.to_thread(imported, *command, DATABASE_URL=database_url)
    assert ended == 0
    assert "app.persistence.schema" in modules
    assert not modules & {
        "alembic",
        "sqlalchemy",
        "fastapi",
        "langchain.agents",
        "app.bench.command",
        "app.main",
    }


def test_a_port_in_use_is_said_with_what_to_do(tmp_path: Path) -> None:
    (tmp_path / "config.yaml").touch()
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = str(taken.getsockname()[1])
        command = ["serve", "--config", str(tmp_path / "config.yaml"), "--port", port]
        ended = run(
            [sys.executable, "-m", "app", *command],
            cwd=ROOT,
            capture_output=True,
            text=True,
            check=False,
            timeout=60,
        )
    said = (
        f"threadkeep: Cannot listen on 127.0.0.1:{port}: Address already in use; choose another with --port\n"
    )
    assert (ended.returncode, ended.stderr) == (1, said)
    assert not (tmp_path / ".threadkeep").exists()


@pytest.mark.parametrize(
    ("address", "warned"),
    [
        (("127.0.0.1", 8000), False),
        (("::1", 8000, 0, 0), False),
        (None, False),
        (("0.0.0.0", 8000), True),
        (("192.0.2.7", 8000), True),
        (("::", 8000, 0, 0), True),
    ],
)
async def test_an_address_that_others_can_reach_is_warned_about(
    gateway: Gateway, address: tuple[str, int] | None, warned: bool
) -> None:
    report = startup_report(gateway.core, address)
    assert ("there are no accounts" in report) == warned


@pytest.mark.parametrize(
    ("clause", "window", "said"),
    [
        ({"type": "fraction", "value": 0.8}, None, "no context_window is known"),
        ({"type": "tokens", "value": 32000}, 8192, "comes too late"),
    ],
)
async def test_a_trigger_that_cannot_work_with_a_model_is_said_at_the_start(
    tmp_path: Path, database_url: str, clause: dict[str, Any], window: int | None, said: str
) -> None:
    model = {
        "name": "local",
        "use": "langchain_openai:ChatOpenAI",
        "model": "stand-in",
        "base_url": "http://127.0.0.1:9/v1",
    }
    sections = {
        "models": [{**model, "context_window": window} if window else model],
        "summarization": {"trigger": [clause]},
    }
    async with serving(tmp_path, database_url, sections) as served:
        report = startup_report(served.core, None)
    assert 'summarization with model "local": trigger ' in report
    assert said in report
