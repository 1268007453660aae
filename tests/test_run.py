"""The one command: sets up what is missing, once, and gets out of the way."""

from __future__ import annotations

import hashlib
import os
import shutil
import signal
import subprocess
import sys
import time
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
APP = """
import os, sys
import tiny
print(tiny.VERSION, os.getcwd(), os.environ.get("THREADKEEP_CONFIG"), sys.argv[1:])
"""


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    """A project with our ``run``, an app that prints how it was called, and one small dependency."""
    folder = tmp_path / "a project"
    (folder / "app").mkdir(parents=True)
    (folder / "app" / "__init__.py").touch()
    (folder / "app" / "__main__.py").write_text(APP)
    (folder / "config.yaml").touch()
    shutil.copy(ROOT / "run", folder / "run")
    lock(folder, "1.0")
    return folder


def lock(folder: Path, version: str) -> None:
    """Lock the project's dependency to a version, which is made here."""
    wheel = folder / f"tiny-{version}-py3-none-any.whl"
    info = f"tiny-{version}.dist-info"
    with zipfile.ZipFile(wheel, "w") as archive:
        archive.writestr("tiny.py", f"VERSION = {version!r}")
        archive.writestr(f"{info}/METADATA", f"Metadata-Version: 2.1\nName: tiny\nVersion: {version}\n")
        archive.writestr(f"{info}/WHEEL", "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n")
        archive.writestr(f"{info}/RECORD", "")
    digest = hashlib.sha256(wheel.read_bytes()).hexdigest()
    (folder / "requirements.lock").write_text(f"tiny @ {wheel.as_uri()} --hash=sha256:{digest}\n")


def environment(**changes: str) -> dict[str, str]:
    kept = {
        name: value for name, value in os.environ.items() if not name.startswith(("PYTHON", "THREADKEEP_"))
    }
    return {**kept, **changes}


def run(
    program: Path | str, *arguments: str, cwd: Path | None = None, **changes: str
) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [str(program), *arguments],
        cwd=cwd or ROOT.parent,
        env=environment(**changes),
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )


def test_it_installs_once_and_works_from_anywhere(checkout: Path, tmp_path: Path) -> None:
    elsewhere = tmp_path / "elsewhere"
    (elsewhere / "app").mkdir(parents=True)
    (elsewhere / "app" / "__main__.py").write_text("raise SystemExit('the wrong app')")
    config = checkout / "config.yaml"

    first = run(checkout / "run", cwd=elsewhere)
    assert first.stdout == f"1.0 {elsewhere} {config} ['serve']\n", first.stderr
    assert "installing requirements.lock" in first.stderr

    (elsewhere / "link").symlink_to(checkout / "run")
    again = run("./link", "--port", "0", cwd=elsewhere, PYTHONPATH="/nowhere")
    assert (again.stdout, again.stderr) == (f"1.0 {elsewhere} {config} ['serve', '--port', '0']\n", "")

    other = run(checkout / "run", "worker", "--data-dir", "it's here", THREADKEEP_CONFIG="mine.yaml")
    assert other.stdout == f"1.0 {ROOT.parent} mine.yaml ['worker', '--data-dir', \"it's here\"]\n"

    lock(checkout, "2.0")
    changed = run(checkout / "run", "migrate")
    assert changed.stdout.startswith("2.0 "), changed.stderr

    (checkout / "tiny-2.0-py3-none-any.whl").write_bytes(b"something else")
    (checkout / "requirements.lock").open("a").write("# another lock\n")
    refused = run(checkout / "run")
    assert (refused.returncode, refused.stdout) == (1, "")
    assert "installing requirements.lock failed" in refused.stderr


def test_two_first_starts_at_once_install_once(checkout: Path) -> None:
    both = [
        subprocess.Popen(
            [checkout / "run"], env=environment(), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
        )
        for _ in range(2)
    ]
    ended = [process.communicate(timeout=120) for process in both]
    assert all(output.startswith("1.0 ") for output, _ in ended), ended
    assert sum("installing" in error for _, error in ended) == 1
    assert sum("waiting for it" in error for _, error in ended) == 1


def test_an_interrupted_install_is_not_taken_for_a_complete_one(checkout: Path) -> None:
    interrupted = subprocess.Popen(
        [checkout / "run"],
        env=environment(),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        start_new_session=True,
    )
    python = checkout / ".venv" / "bin" / "python"
    deadline = time.monotonic() + 60
    while not python.exists() and time.monotonic() < deadline:
        time.sleep(0.01)
    os.killpg(interrupted.pid, signal.SIGKILL)
    interrupted.communicate()
    assert python.exists()
    after = run(checkout / "run")
    assert after.stdout.startswith("1.0 "), after.stderr


@pytest.fixture
def tools(tmp_path: Path) -> Path:
    """A folder for PATH with what a bare system has, and no python."""
    folder = tmp_path / "bin"
    folder.mkdir()
    for name in ("sh", "readlink", "dirname", "cmp", "cat"):
        found = shutil.which(name)
        assert found is not None
        (folder / name).symlink_to(found)
    return folder


def fake_python(tools: Path, script: str) -> None:
    path = tools / "python3"
    path.write_text(f"#!{sys.executable}\n{script}")
    path.chmod(0o755)


def test_a_system_without_python_is_told_so(checkout: Path, tools: Path) -> None:
    refused = run(checkout / "run", PATH=str(tools))
    assert refused.returncode == 1
    assert refused.stderr == "run: python3 was not found; install Python 3.11 or newer\n"


def test_a_python_that_is_too_old_is_named_with_its_version(checkout: Path, tools: Path) -> None:
    fake_python(tools, "import sys; print('Python 3.9.2') if '-V' in sys.argv else sys.exit(1)")
    refused = run(checkout / "run", PATH=str(tools))
    assert refused.returncode == 1
    assert refused.stderr == "run: Python 3.11 or newer is needed, but python3 is Python 3.9.2\n"


def test_a_python_without_venv_is_told_what_to_install(checkout: Path, tools: Path) -> None:
    fake_python(tools, "import sys; sys.exit('ensurepip' in sys.argv[2])")
    refused = run(checkout / "run", PATH=str(tools))
    assert refused.returncode == 1
    assert "python3 has no venv module" in refused.stderr
    assert "python3-venv" in refused.stderr


def test_help_lists_the_commands_without_installing_anything(checkout: Path) -> None:
    shown = run(checkout / "run", "help")
    assert shown.returncode == 0
    assert all(word in shown.stdout for word in ("serve", "worker", "migrate", "test", "check", "lock"))
    assert not (checkout / ".venv").exists()


def test_an_unknown_command_is_refused_before_anything_is_installed(checkout: Path) -> None:
    refused = run(checkout / "run", "sevre")
    assert (refused.returncode, refused.stdout) == (2, "")
    assert refused.stderr.startswith("run: there is no command 'sevre'\nusage: ./run")
    assert not (checkout / ".venv").exists()
