"""The section of the skills that the thread has loaded."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from app.agent.channels.skills import (
    MAX_DESCRIPTION_CHARACTERS,
    MAX_NAME_CHARACTERS,
    MAX_PATH_CHARACTERS,
    MAX_SKILLS,
    SkillRef,
)
from app.agent.sections.lines import one_line

SKILLS_HEADING = "## Active skills (loaded earlier - re-read the file before applying its instructions)"


def skills_section(state: Mapping[str, Any]) -> str | None:
    """One line for each skill in the channel ``skill_context`` (rule G2)."""
    loaded = state.get("skill_context")
    if not loaded:
        return None
    return "\n".join([SKILLS_HEADING, "", *map(_line, loaded[-MAX_SKILLS:])])


def _line(skill: SkillRef) -> str:
    name = one_line(skill["name"], MAX_NAME_CHARACTERS)
    description = one_line(skill["description"], MAX_DESCRIPTION_CHARACTERS)
    return f"- {name}: {description} -> {one_line(skill['path'], MAX_PATH_CHARACTERS)}"
