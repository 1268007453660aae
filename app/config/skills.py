"""The section ``skills``: the folder with the agent's skills, and the path under which the agent sees it."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Annotated, Any

from pydantic import BeforeValidator

from app.config.values import Section, Text, refuse

DEFAULT_SKILLS_PATH = "skills"
DEFAULT_CONTAINER_PATH = "/mnt/skills"

_ABSOLUTE = re.compile(r"(?:/[A-Za-z0-9_.-]{1,64}){1,8}")


def absolute_path(value: Any) -> str:
    """An absolute path of plain names, without a slash at its end."""
    path = value.rstrip("/") if isinstance(value, str) else ""
    if not _ABSOLUTE.fullmatch(path) or not {".", ".."}.isdisjoint(path.split("/")):
        raise refuse('must be an absolute path of plain names like "/mnt/skills"')
    return path


class SkillsSettings(Section):
    """``path`` is on the host, relative to config.yaml; None: the folder ``skills`` beside it, if there is one."""

    path: Text | None = None
    container_path: Annotated[str, BeforeValidator(absolute_path)] = DEFAULT_CONTAINER_PATH

    def folder(self, config_dir: Path) -> Path:
        """Where the skills are. It need not exist."""
        return (config_dir / Path(self.path or DEFAULT_SKILLS_PATH).expanduser()).resolve()

    def warnings(self, config_dir: Path) -> list[str]:
        """A folder that was named and is none is no reason not to start: other projects' files name their own."""
        if self.path is None or self.folder(config_dir).is_dir():
            return []
        return [f"skills.path: there is no folder {self.path}; agents have no skills until there is one"]
