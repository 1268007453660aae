"""The channel ``skill_context``: which skills the thread has loaded, as references, never as text (rule G2)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypedDict

MAX_SKILLS = 8
MAX_NAME_CHARACTERS = 64
MAX_DESCRIPTION_CHARACTERS = 500
MAX_PATH_CHARACTERS = 300


class SkillRef(TypedDict):
    """A loaded skill. ``path`` is that of its SKILL.md as the agent sees it, ``loaded_at`` a time (ISO 8601, UTC)."""

    name: str
    path: str
    description: str
    loaded_at: str


def merge_skills(loaded: Sequence[SkillRef] | None, new: Sequence[SkillRef] | None) -> list[SkillRef]:
    """Both in the order of loading, each path once where it was loaded last, the newest ``MAX_SKILLS``."""
    by_path: dict[str, SkillRef] = {}
    for skill in (*(loaded or ()), *(new or ())):
        by_path.pop(skill["path"], None)
        by_path[skill["path"]] = skill
    return list(by_path.values())[-MAX_SKILLS:]
