"""``python -m app bench compaction`` as people call it: it ends, its figures hold together, nothing is left behind."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
import yaml

from app.__main__ import main
from app.persistence.database import connect

ROOT = Path(__file__).parents[2]
SUMMARIZATION = {"trigger": {"type": "tokens", "value": 32000}, "keep": {"type": "messages", "value": 10}}


def environ(database_url: str | None) -> dict[str, str]:
    kept = {name: value for name, value in os.environ.items() if not name.startswith("THREADKEEP_")}
    kept.pop("DATABASE_URL", None)
    return {**kept, **({"DATABASE_URL": database_url} if database_url else {})}


def command(folder: Path, *arguments: str) -> list[str]:
    config = folder / "config.yaml"
    config.write_text(yaml.safe_dump({"summarization": SUMMARIZATION}))
    given = ("--config", str(config), "--data-dir", str(folder / "deep" / "data"))
    return [sys.executable, "-m", "app", "bench", "compaction", *given, *arguments]


def called(
    folder: Path, *arguments: str, database_url: str | None = None
) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        command(folder, *arguments),
        cwd=ROOT,
        env=environ(database_url),
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )


def everything_positive(figures: Mapping[str, Any]) -> bool:
    numbers = [value for value in figures.values() if isinstance(value, int | float)]
    return bool(numbers) and all(value > 0 for value in numbers)


def check(document: Mapping[str, Any], sizes: list[int]) -> None:
    assert set(document) == {"machine", "seconds", "hook", "planning", "storage", "errand", "goals"}
    assert [(hook["messages"], hook["case"]) for hook in document["hook"]] == [
        (size, case) for size in sizes for case in ("first", "growing", "reread")
    ]
    assert [planned["messages"] for planned in document["planning"]] == sizes
    assert [stored["checkpoint_mode"] for stored in document["storage"]] == ["delta", "full"]
    assert [errand["middleware"] for errand in document["errand"]] == ["threadkeep", "langchain"]
    for section in ("hook", "planning", "storage", "errand"):
        assert all(everything_positive(figures) for figures in document[section]), section


def check_storage(document: Mapping[str, Any]) -> None:
    delta, full = document["storage"]
    for stored in (delta, full):
        before, after = stored["uncompacted"], stored["compacted"]
        assert everything_positive(before)
        assert everything_positive(after)
        assert after["messages"] < before["messages"]
        assert stored["turn_ratio"] == pytest.approx(after["turn_ms"] / before["turn_ms"])
        assert stored["bytes_ratio"] == pytest.approx(after["bytes_per_turn"] / before["bytes_per_turn"])
    assert delta["uncompacted"]["messages"] == full["uncompacted"]["messages"]
    assert delta["uncompacted"]["bytes_per_turn"] < full["uncompacted"]["bytes_per_turn"]
    assert full["bytes_ratio"] < 1


def test_a_quick_run_writes_tables_and_json_and_leaves_nothing_behind(tmp_path: Path) -> None:
    done = called(tmp_path, "--quick", "--sizes", "60,20", "--json", str(tmp_path / "figures.json"))
    assert done.returncode == 0, done.stderr
    document = json.loads((tmp_path / "figures.json").read_text())
    check(document, [20, 60])
    check_storage(document)
    assert document["goals"] == []
    for word in ("growing", "reread", "delta", "full", "langchain", "processors"):
        assert word in done.stdout
    assert str(tmp_path) not in done.stdout + json.dumps(document)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["config.yaml", "figures.json"]


async def databases(url: str) -> set[str]:
    async with await connect(url) as connection:
        cursor = await connection.execute("SELECT datname FROM pg_database WHERE datname LIKE '%scratch%'")
        return {row["datname"] for row in await cursor.fetchall()}


async def test_on_a_real_server_it_uses_a_database_of_its_own_and_drops_it(
    tmp_path: Path, database_url: str
) -> None:
    before = await databases(database_url)
    done = await asyncio.to_thread(
        called,
        tmp_path,
        "--quick",
        "--sizes",
        "20",
        "--json",
        str(tmp_path / "f.json"),
        database_url=database_url,
    )
    assert done.returncode == 0, done.stderr
    check(json.loads((tmp_path / "f.json").read_text()), [20])
    assert await databases(database_url) <= before
    async with await connect(database_url) as connection:
        cursor = await connection.execute("SELECT count(*) AS number FROM threads")
        assert await cursor.fetchone() == {"number": 0}


@pytest.mark.parametrize(("number", "status"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
async def test_stopped_in_the_middle_it_cleans_up(
    tmp_path: Path, number: signal.Signals, status: int
) -> None:
    process = await asyncio.create_subprocess_exec(
        *command(tmp_path),
        cwd=ROOT,
        env=environ(None),
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )
    assert process.stderr is not None
    async with asyncio.timeout(60):
        assert b"measuring" in await process.stderr.readline()
        assert (tmp_path / "deep" / "data").is_dir()
        process.send_signal(number)
        output, errors = await process.communicate()
    assert process.returncode == status, errors.decode()
    assert b"Traceback" not in errors
    assert output == b""
    assert [path.name for path in tmp_path.iterdir()] == ["config.yaml"]


@pytest.mark.parametrize("sizes", ["", "0", "-5", "ten", "100,", "1e3", "19", "20001", "100;1000"])
def test_sizes_that_cannot_be_measured_are_refused_with_what_is_allowed(
    sizes: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as ended:
        main(["bench", "compaction", f"--sizes={sizes}"])
    assert ended.value.code == 2
    assert "from 20 to 20000" in capsys.readouterr().err


def test_a_file_that_cannot_be_written_is_told_before_anything_is_measured(tmp_path: Path) -> None:
    done = called(tmp_path, "--json", str(tmp_path / "missing" / "figures.json"))
    assert done.returncode == 1
    assert "figures.json" in done.stderr
    assert "measuring" not in done.stderr


def test_a_server_that_is_not_there_is_one_line(tmp_path: Path) -> None:
    done = called(tmp_path, "--quick", database_url="postgresql://nobody:secret@127.0.0.1:1/none")
    assert done.returncode == 1
    assert len(done.stderr.splitlines()) == 1
    assert "secret" not in done.stderr
