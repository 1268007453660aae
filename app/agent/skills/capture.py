"""Which tool results show that a skill was loaded (rule G2)."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

from langchain_core.messages import ToolMessage

from app.agent.channels.skills import (
    MAX_DESCRIPTION_CHARACTERS,
    MAX_NAME_CHARACTERS,
    MAX_PATH_CHARACTERS,
    SkillRef,
)
from app.agent.skills.catalogue import SKILL_ENTRY
from app.agent.skills.document import SKILL_FILE
from app.agent.skills.paths import plain_path

_PATH_ARGUMENTS = ("path", "file_path")


class SkillCapture:
    """Captures from results of the tools ``tool_names`` (none: never) files below ``container_path``."""

    def __init__(self, container_path: str, tool_names: Collection[str]) -> None:
        self._below = f"{container_path}/"
        self._tool_names = frozenset(tool_names)

    def of(self, call: Mapping[str, Any], result: Any) -> SkillRef | None:
        """The skill that a call loaded, by the metadata that the tool put on its result; what the result says does
        not count. None when it loaded none."""
        if not isinstance(result, ToolMessage) or result.status == "error":
            return None
        entry = result.additional_kwargs.get(SKILL_ENTRY)
        if call["name"] not in self._tool_names or not isinstance(entry, Mapping):
            return None
        path = self._skill_path(entry.get("path"))
        return _reference(path, entry) if path and path == _path_of(call) else None

    def _skill_path(self, path: Any) -> str | None:
        plain = plain_path(path) if isinstance(path, str) else None
        if plain is None or len(plain) > MAX_PATH_CHARACTERS:
            return None
        return plain if plain.startswith(self._below) and plain.endswith(f"/{SKILL_FILE}") else None


def _path_of(call: Mapping[str, Any]) -> str | None:
    given = next((call["args"][name] for name in _PATH_ARGUMENTS if name in call["args"]), None)
    return plain_path(given) if isinstance(given, str) else None


def _reference(path: str, entry: Mapping[str, Any]) -> SkillRef:
    return SkillRef(
        name=_text(entry, "name", MAX_NAME_CHARACTERS),
        path=path,
        description=_text(entry, "description", MAX_DESCRIPTION_CHARACTERS),
        loaded_at=_text(entry, "loaded_at", MAX_NAME_CHARACTERS),
    )


def _text(entry: Mapping[str, Any], name: str, most: int) -> str:
    value = entry.get(name)
    return value[:most] if isinstance(value, str) else ""
