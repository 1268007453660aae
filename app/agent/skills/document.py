"""SKILL.md: front matter with a name and a description, then the instructions."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import Any

import yaml

from app.agent.channels.skills import MAX_NAME_CHARACTERS
from app.agent.tools.paths import quote
from app.errors import ThreadkeepError

SKILL_FILE = "SKILL.md"
MAX_SKILL_BYTES = 64 * 1024
MAX_DESCRIPTION_CHARACTERS = 1024

SKILL_NAME = re.compile(r"[a-z0-9]+(?:-[a-z0-9]+)*")
RESERVED_NAMES = frozenset({"compact", "error", "slow", "then", "think", "tool"})
"""Commands of front ends and of the demo model: a skill of such a name could not be told from them."""

_FRONT_MATTER = re.compile(
    r"---[ \t]*\n(?P<head>.*?)^---[ \t]*(?:\n(?P<body>.*))?\Z", re.DOTALL | re.MULTILINE
)


class BrokenSkill(ThreadkeepError):
    """A SKILL.md cannot be used. The text says why and is for the operator."""

    code = "broken_skill"


@dataclass(frozen=True, slots=True)
class SkillDocument:
    """What a SKILL.md says. ``description`` is one line."""

    name: str
    description: str
    instructions: str = field(repr=False)


def parse_skill(text: str) -> SkillDocument:
    """Raises BrokenSkill."""
    found = _FRONT_MATTER.match(text.replace("\r\n", "\n"))
    if found is None:
        raise BrokenSkill('it must begin with front matter: a line "---", name and description, a line "---"')
    fields = _fields(found["head"])
    instructions = (found["body"] or "").strip()
    if not instructions:
        raise BrokenSkill("there are no instructions behind the front matter")
    return SkillDocument(_name(fields.get("name")), _description(fields.get("description")), instructions)


def _fields(head: str) -> dict[str, Any]:
    try:
        # The loader that makes every scalar a text: a name like 2024-13-99 is no reason to fail.
        fields = yaml.load(head, Loader=yaml.BaseLoader)
    except (yaml.YAMLError, RecursionError) as error:
        mark = getattr(error, "problem_mark", None)
        place = f" (line {mark.line + 2})" if mark else ""
        reason = getattr(error, "problem", None) or "it cannot be read"
        raise BrokenSkill(f"the front matter is not valid YAML{place}: {reason}") from None
    if not isinstance(fields, dict):
        raise BrokenSkill("the front matter must be a mapping with name and description")
    return fields


def _name(value: Any) -> str:
    if not isinstance(value, str) or not value:
        raise BrokenSkill("the front matter has no name")
    if len(value) > MAX_NAME_CHARACTERS or not SKILL_NAME.fullmatch(value):
        raise BrokenSkill(
            f"the name {quote(value)} is not allowed: 1 to {MAX_NAME_CHARACTERS} small letters and digits, "
            "parted by single hyphens"
        )
    if value in RESERVED_NAMES:
        raise BrokenSkill(f"the name {quote(value)} is not allowed: /{value} is a command")
    return value


def _description(value: Any) -> str:
    description = " ".join(value.split()) if isinstance(value, str) else ""
    if not description:
        raise BrokenSkill("the front matter has no description")
    if len(description) > MAX_DESCRIPTION_CHARACTERS:
        raise BrokenSkill(
            f"the description has {len(description)} characters, at most {MAX_DESCRIPTION_CHARACTERS}"
        )
    return description
