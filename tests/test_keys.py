"""Keys on the command line, and a service that is not shown to strangers without accounts."""

from __future__ import annotations

import os
import subprocess
import sys
from datetime import UTC, datetime, timedelta
from pathlib import Path

import httpx
import pytest

from app.keys import _expiry
from tests.support.service import config, running

ROOT = Path(__file__).resolve().parents[1]


def app(folder: Path, *arguments: str, **environ: str) -> subprocess.CompletedProcess[str]:
    """A command that ends by itself."""
    (folder / "config.yaml").touch()
    kept = {name: value for name, value in os.environ.items() if not name.startswith("THREADKEEP_")}
    return subprocess.run(
        [sys.executable, "-m", "app", *arguments, "--config", str(folder / "config.yaml")],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
        env={**kept, **environ},
    )


def test_a_key_is_made_listed_and_revoked(tmp_path: Path, database_url: str) -> None:
    made = app(
        tmp_path, "keys", "create", "--owner", "ann", "--expires", "30d", "--admin", DATABASE_URL=database_url
    )
    assert made.returncode == 0, made.stderr
    key = made.stdout.strip()
    key_id = key.split("_")[1]
    assert key.startswith("tk_")
    assert key not in made.stderr
    listed = app(tmp_path, "keys", "list", DATABASE_URL=database_url).stdout
    assert key_id in listed
    assert "ann" in listed
    assert key not in listed
    revoked = app(tmp_path, "keys", "revoke", key_id, DATABASE_URL=database_url)
    assert revoked.stdout == f"Key {key_id} of 'ann' is revoked.\n"
    missing = app(tmp_path, "keys", "revoke", "nothing", DATABASE_URL=database_url)
    assert (missing.returncode, missing.stderr) == (2, "threadkeep: There is no key nothing\n")
    wrong = app(tmp_path, "keys", "create", "--owner", "a\nb", DATABASE_URL=database_url)
    assert wrong.returncode == 2
    assert wrong.stderr.startswith("threadkeep: owner: must be")


@pytest.mark.parametrize(
    ("text", "span"), [("12h", timedelta(hours=12)), ("30d", timedelta(days=30)), ("8w", timedelta(weeks=8))]
)
def test_a_key_may_expire_after_a_span(text: str, span: timedelta) -> None:
    assert abs(_expiry(text) - datetime.now(UTC) - span) < timedelta(seconds=5)


def test_a_key_may_expire_on_a_day() -> None:
    assert _expiry("2999-12-31") == datetime(2999, 12, 31, tzinfo=UTC)


@pytest.mark.parametrize("text", ["2001-01-01", "soon", "0d", "-3d", "30", "99999w1"])
def test_what_is_no_time_to_come_is_refused(tmp_path: Path, text: str) -> None:
    ended = app(tmp_path, "keys", "create", "--owner", "ann", f"--expires={text}")
    assert ended.returncode == 2
    assert "--expires" in ended.stderr


@pytest.mark.parametrize("host", ["0.0.0.0", "::"])
def test_without_accounts_it_does_not_listen_to_others(tmp_path: Path, host: str) -> None:
    ended = app(tmp_path, "serve", "--port", "0", "--host", host)
    assert ended.returncode == 2
    assert ended.stderr.count("\n") == 1
    for said in (host, "auth.type", "server.allow_unauthenticated", "THREADKEEP_ALLOW_UNAUTHENTICATED"):
        assert said in ended.stderr
    assert not (tmp_path / ".threadkeep").exists()


async def test_it_does_with_accounts_and_where_that_is_said(tmp_path: Path, database_url: str) -> None:
    said = {"THREADKEEP_ALLOW_UNAUTHENTICATED": "1"}
    async with running(
        tmp_path, config(), "--host", "0.0.0.0", environ=said, database_url=database_url
    ) as process:
        port = process.url.rpartition(":")[2]
        async with httpx.AsyncClient(base_url=f"http://127.0.0.1:{port}/api") as http:
            assert (await http.post("/threads", json={})).status_code == 200
        assert "there are no accounts" in "".join(process.output)
    async with running(
        tmp_path,
        config(),
        "--host",
        "0.0.0.0",
        environ={"THREADKEEP_AUTH": "api_key"},
        database_url=database_url,
    ) as process:
        port = process.url.rpartition(":")[2]
        async with httpx.AsyncClient(base_url=f"http://127.0.0.1:{port}/api") as http:
            assert (await http.post("/threads", json={})).status_code == 401
            key = app(tmp_path, "keys", "create", "--owner", "ann", DATABASE_URL=database_url).stdout.strip()
            http.headers["x-api-key"] = key
            assert (await http.post("/threads", json={})).status_code == 200
        output = "".join(process.output)
        assert "by API key" in output
        assert "there are no accounts" not in output
        assert key not in output
