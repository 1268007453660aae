"""What people are told when the service starts, or cannot."""

from __future__ import annotations

import socket
import sys
from pathlib import Path
from subprocess import run

import pytest

from app.report import startup_report
from tests.support.gateway import Gateway

ROOT = Path(__file__).resolve().parents[1]


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
