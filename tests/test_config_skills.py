"""The section ``skills`` of config.yaml."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from app.config import Settings, settings_from
from app.errors import ConfigError


def settings_with(section: Any, folder: Path = Path()) -> Settings:
    """Settings of a file in ``folder`` that warn of nothing else."""
    document = {"skills": section, "summarization": {"trigger": {"type": "tokens", "value": 32000}}}
    return settings_from(document, config_path=folder / "config.yaml")


def test_by_default_skills_are_beside_the_file_whether_there_are_any_or_not(tmp_path: Path) -> None:
    settings = settings_with(None, tmp_path)
    assert settings.skills_dir == tmp_path / "skills"
    assert settings.skills.container_path == "/mnt/skills"
    assert settings.warnings == ()


@pytest.mark.parametrize("given", ["how-to", "./how-to", "deep/../how-to"])
def test_a_path_starts_at_the_file_and_may_be_a_link(tmp_path: Path, given: str) -> None:
    (tmp_path / "real").mkdir()
    (tmp_path / "how-to").symlink_to(tmp_path / "real")
    settings = settings_with({"path": given}, tmp_path)
    assert settings.skills_dir == tmp_path / "real"
    assert settings.warnings == ()


def test_a_named_folder_that_is_missing_is_a_warning_and_no_error(tmp_path: Path) -> None:
    settings = settings_with({"path": "../skilz"}, tmp_path)
    assert settings.warnings == (
        "skills.path: there is no folder ../skilz; agents have no skills until there is one",
    )


@pytest.mark.parametrize(
    ("section", "parts"),
    [
        ({"path": 5}, ("skills.path: 5 is not allowed", "text")),
        ({"path": " "}, ("skills.path", "not empty")),
        ({"container_path": "mnt/skills"}, ('skills.container_path: "mnt/skills"', "absolute path")),
        ({"container_path": "/"}, ("skills.container_path", "absolute path")),
        ({"container_path": "/mnt/../skills"}, ("skills.container_path", "absolute path")),
        ({"container_path": "/mnt//skills"}, ("skills.container_path", "absolute path")),
        ({"container_path": "/mnt/my skills"}, ("skills.container_path", "plain names")),
        ({"container_path": None}, ("skills.container_path: null", "absolute path")),
        ({"paht": "x"}, ('skills.paht: unknown key (did you mean "path"?',)),
        ({"container_pat": "/x"}, ('skills.container_pat: unknown key (did you mean "container_path"?',)),
        ([], ("skills: a list is not allowed", "mapping")),
    ],
)
def test_a_wrong_value_is_named_with_what_is_allowed(section: Any, parts: tuple[str, ...]) -> None:
    with pytest.raises(ConfigError) as caught:
        settings_with(section)
    assert all(part in str(caught.value) for part in parts), str(caught.value)


def test_keys_of_deerflow_in_the_section_are_ignored_with_a_warning() -> None:
    section = {"use": "deerflow.skills:Storage", "deferred_discovery": True, "container_path": "/mnt/skills/"}
    settings = settings_with(section)
    (warning,) = settings.warnings
    assert "skills.use, skills.deferred_discovery" in warning
    assert settings.skills.container_path == "/mnt/skills"
