"""Keys on the command line, and a service that is not shown to strangers without accounts."""

from __future__ import annotations

import argparse
import subprocess
import sys
from datetime import UTC, datetime, timedelta
from pathlib import Path

import httpx
import pytest

from app.commands.arguments import parser
from app.commands.keys import keys
from app.commands.listening import refuse_exposure
from app.config import settings_from
from app.errors import ConfigError, InvalidInput, NotFound
from tests.support.service import config, running

ROOT = Path(__file__).resolve().parents[1]


def parsed(*arguments: str) -> argparse.Namespace:
    return parser().parse_args(["keys", *arguments])


async def said(capsys: pytest.CaptureFixture[str], database_url: str, *arguments: str) -> tuple[str, str]:
    """What the command prints, to both of its streams."""
    await keys(settings_from({}, environ={"DATABASE_URL": database_url}), parsed(*arguments))
    return tuple(capsys.readouterr())  # type: ignore[return-value]


async def test_a_key_is_made_listed_and_revoked(
    capsys: pytest.CaptureFixture[str], database_url: str
) -> None:
    key, about = await said(capsys, database_url, "create", "--owner", "ann", "--expires", "30d", "--admin")
    key, key_id = key.strip(), key.split("_")[1]
    assert key.startswith("tk_")
    assert key_id in about
    assert key not in about
    listed, _ = await said(capsys, database_url, "list")
    assert listed.splitlines()[1].split()[:3] == [key_id, "ann", "yes"]
    assert key not in listed
    assert (await said(capsys, database_url, "list", "--owner", "bob"))[0].count("\n") == 1
    assert (await said(capsys, database_url, "revoke", key_id))[0] == f"Key {key_id} of 'ann' is revoked.\n"
    with pytest.raises(NotFound):
        await said(capsys, database_url, "revoke", "nothing")
    for wrong in ("a\nb", " a", "x" * 201):
        with pytest.raises(InvalidInput):
            await said(capsys, database_url, "create", "--owner", wrong)


@pytest.mark.parametrize(
    ("text", "span"), [("12h", timedelta(hours=12)), ("30d", timedelta(days=30)), ("8w", timedelta(weeks=8))]
)
def test_a_key_may_expire_after_a_span(text: str, span: timedelta) -> None:
    expires = parsed("create", "--owner", "ann", "--expires", text).expires
    assert abs(expires - datetime.now(UTC) - span) < timedelta(seconds=5)


def test_a_key_may_expire_on_a_day() -> None:
    expires = parsed("create", "--owner", "ann", "--expires", "2999-12-31").expires
    assert expires == datetime(2999, 12, 31, tzinfo=UTC)


@pytest.mark.parametrize("text", ["2001-01-01", "soon", "0d", "-3d", "30", "999999d"])
def test_what_is_no_time_to_come_is_refused(text: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        parsed("create", "--owner", "ann", f"--expires={text}")
    assert "--expires" in capsys.readouterr().err


@pytest.mark.parametrize("address", ["0.0.0.0", "::", "192.0.2.7"])
def test_without_accounts_others_are_kept_out(address: str) -> None:
    with pytest.raises(ConfigError, match=r"auth\.type to api_key"):
        refuse_exposure(settings_from({}), address)
    for open_on_purpose in ({"server": {"allow_unauthenticated": True}}, {"auth": {"type": "api_key"}}):
        refuse_exposure(settings_from(open_on_purpose), address)


@pytest.mark.parametrize("address", ["127.0.0.1", "127.3.2.1", "::1"])
def test_this_machine_is_nobody_else(address: str) -> None:
    refuse_exposure(settings_from({}), address)


def test_it_stops_with_one_clear_line_before_anything_is_made(tmp_path: Path) -> None:
    (tmp_path / "config.yaml").touch()
    command = ["serve", "--port", "0", "--host", "0.0.0.0", "--config", str(tmp_path / "config.yaml")]
    ended = subprocess.run(
        [sys.executable, "-m", "app", *command],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )
    assert ended.returncode == 2
    assert ended.stderr.count("\n") == 1
    for named in ("0.0.0.0", "auth.type", "server.allow_unauthenticated", "THREADKEEP_ALLOW_UNAUTHENTICATED"):
        assert named in ended.stderr
    assert not (tmp_path / ".threadkeep").exists()


async def test_with_accounts_it_listens_to_everybody_and_asks_who_they_are(
    tmp_path: Path, database_url: str, capsys: pytest.CaptureFixture[str]
) -> None:
    environ = {"THREADKEEP_AUTH": "api_key"}
    async with running(
        tmp_path, config(), "--host", "0.0.0.0", environ=environ, database_url=database_url
    ) as process:
        port = process.url.rpartition(":")[2]
        async with httpx.AsyncClient(base_url=f"http://127.0.0.1:{port}/api") as http:
            assert (await http.post("/threads", json={})).status_code == 401
            key, _ = await said(capsys, database_url, "create", "--owner", "ann")
            http.headers["x-api-key"] = key.strip()
            assert (await http.post("/threads", json={})).status_code == 200
        output = "".join(process.output)
    assert "by API key" in output
    assert "there are no accounts" not in output
    assert key.strip() not in output
