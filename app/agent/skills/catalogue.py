"""The skills of the service: what stands in the folder, looked up again whenever somebody asks."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from app.agent.channels.skills import MAX_PATH_CHARACTERS, SkillRef
from app.agent.skills.document import (
    MAX_SKILL_BYTES,
    SKILL_FILE,
    SKILL_NAME,
    BrokenSkill,
    SkillDocument,
    parse_skill,
)
from app.agent.skills.paths import plain_path
from app.agent.tools.folder import Entry, Folder
from app.agent.tools.paths import Parts
from app.agent.tools.text import decode
from app.errors import ThreadkeepError

log = logging.getLogger(__name__)

SKILL_ENTRY = "skill_context_entry"
"""The metadata by which the service knows that a tool result is a skill (rule G2). Clients cannot set it (rule H3)."""

# Skills may be sorted into folders, but nobody walks whole trees for one.
_MAX_LEVELS = 4


@dataclass(frozen=True, slots=True)
class Skill:
    """A skill as it was found. ``path`` is that of its SKILL.md as agents see it. One with an ``error`` is not used;
    its name is then the folder's."""

    name: str
    path: str
    description: str = ""
    instructions: str = field(default="", repr=False)
    error: str | None = None

    @property
    def folder(self) -> str:
        return self.path.removesuffix(f"/{SKILL_FILE}")

    def reference(self) -> SkillRef:
        """What a thread keeps of it when it is loaded now."""
        now = datetime.now(UTC).isoformat(timespec="milliseconds")
        return SkillRef(name=self.name, path=self.path, description=self.description, loaded_at=now)


class SkillCatalogue:
    """All skills below ``location``, which agents see as ``container_path``.

    Files are read again when they have changed, so that a skill can be added or mended while the service runs. What is
    broken is reported, once in the log, and stops nothing.
    """

    def __init__(self, location: Path, container_path: str) -> None:
        self.location = location
        self.container_path = container_path
        self._folder = Folder(location, f"{container_path}/", hidden=False)
        self._read: dict[Entry, Skill] = {}
        self._reported: frozenset[tuple[str, str]] = frozenset()

    def listed(self) -> list[Skill]:
        """Every skill in the order of the paths, the broken ones included. Blocks for as long as a few stats take."""
        try:
            entries = list(self._entries((), _MAX_LEVELS))
        except ThreadkeepError as error:
            name = self.container_path.rpartition("/")[2]
            return self._reporting([Skill(name, self.container_path, error=error.detail)])
        skills = [self._read.get(entry) or self._load(entry) for entry in entries]
        found = dict(zip(entries, skills, strict=True))
        # What is broken is looked at again: it may be mended without a change of the file itself.
        self._read = {entry: skill for entry, skill in found.items() if skill.error is None}
        return self._reporting(list(_without_twins(skills)))

    def usable(self) -> list[Skill]:
        return [skill for skill in self.listed() if skill.error is None]

    def stamp(self, path: str) -> dict[str, Any]:
        """What the read tool puts on its result when the file that it read is a skill."""
        plain = plain_path(path)
        found = next((skill for skill in self.usable() if skill.path == plain), None)
        return {SKILL_ENTRY: found.reference()} if found else {}

    def _entries(self, parts: Parts, levels: int) -> Iterator[Entry]:
        """The SKILL.md of each skill, and links, which are not followed but should not vanish without a word."""
        try:
            entries = list(self._folder.walk(parts, depth=1))
        except ThreadkeepError:
            if not parts:
                raise
            # Reading what should be there says what is wrong with the folder.
            entries = [Entry("/".join((*parts, SKILL_FILE)), "other", 0)]
        own = [entry for entry in entries if _name_of(entry) == SKILL_FILE]
        yield from own
        for entry in [] if own and parts else entries:
            if entry.kind == "link" and SKILL_NAME.fullmatch(_name_of(entry)):
                yield entry
            elif entry.kind == "folder" and levels > 1:
                yield from self._entries(tuple(entry.path.split("/")), levels - 1)

    def _load(self, entry: Entry) -> Skill:
        path = f"{self.container_path}/{entry.path}"
        try:
            document = self._document(tuple(entry.path.split("/")), path)
        except ThreadkeepError as error:
            name = path.removesuffix(f"/{SKILL_FILE}").rpartition("/")[2]
            return Skill(name, path, error=error.detail)
        return Skill(document.name, path, document.description, document.instructions)

    def _document(self, parts: Parts, path: str) -> SkillDocument:
        if len(parts) == 1 and parts[0] == SKILL_FILE:
            raise BrokenSkill("a skill needs a folder of its own")
        if len(path) > MAX_PATH_CHARACTERS:
            raise BrokenSkill(f"its path has {len(path)} characters, at most {MAX_PATH_CHARACTERS}")
        return parse_skill(decode(self._folder.read(parts, MAX_SKILL_BYTES), path))

    def _reporting(self, skills: list[Skill]) -> list[Skill]:
        broken = {(skill.path, skill.error) for skill in skills if skill.error}
        for path, error in sorted(broken - self._reported):
            log.warning("the skill %s is not used: %s", path, error)
        self._reported = frozenset(broken)
        return skills


def _name_of(entry: Entry) -> str:
    return entry.path.rpartition("/")[2]


def _without_twins(skills: Iterable[Skill]) -> Iterator[Skill]:
    """Of two skills of one name the first is the one that the name means."""
    taken: dict[str, str] = {}
    for skill in skills:
        if skill.error is None and (first := taken.setdefault(skill.name, skill.path)) != skill.path:
            yield replace(skill, error=f"the name {skill.name} is taken by {first}")
        else:
            yield skill
