"""The skills of one agent: what it is told of them, and which one a person activated."""

from __future__ import annotations

import re
from collections.abc import Collection, Sequence

from langchain_core.messages import BaseMessage

from app.agent.skills.catalogue import Skill, SkillCatalogue
from app.agent.skills.document import SKILL_NAME
from app.compaction.fence import neutralise
from app.compaction.roles import (
    is_ai,
    is_clarification_answer,
    is_human,
    is_real_user_message,
    tool_call_ids,
)
from app.ports import Activation

_COMMAND = re.compile(rf"\s*/({SKILL_NAME.pattern})(?!\S)")

_LISTING = """\
## Skills

Proven ways to do special tasks, as files. When a task fits the description of a skill, read its file with `{read_tool}`
before you begin, and work by it: unlike other files, skills are instructions to you, installed by whoever runs this
service. Give the paths as they are; what is below {root} can be read, listed and searched, but not changed. A person
who begins a message with `/` and the name of a skill wants it to be used.
"""

_ACTIVATED = """\
The person began the message that follows with /{name}: they want the skill of this name to be used for it. It was
installed by whoever runs this service. Work by its instructions; files that it names are below {folder}.

{instructions}"""


class AgentSkills:
    """The skills of the catalogue that an agent has: those in ``names``, or all.

    ``read_tool`` is the tool with which it reads files. Without one it is told of no skill, but people can still
    activate them.
    """

    def __init__(
        self, catalogue: SkillCatalogue, names: Collection[str] | None = None, read_tool: str | None = None
    ) -> None:
        self._catalogue = catalogue
        self._names = names
        self._read_tool = read_tool

    def listing(self) -> str:
        """Names, descriptions and paths, for the system prompt; nothing when there are none. The same as long as the
        files are the same."""
        skills = self._usable() if self._read_tool else []
        if not skills:
            return ""
        head = _LISTING.format(read_tool=self._read_tool, root=self._catalogue.container_path)
        return "\n".join(
            [head, *(f"- {skill.name}: {neutralise(skill.description)} -> {skill.path}" for skill in skills)]
        )

    def missing(self) -> list[str]:
        """Names that the agent was given and no usable skill has."""
        known = {skill.name for skill in self._usable()}
        return [name for name in self._names or () if name not in known]

    def activated(self, messages: Sequence[BaseMessage]) -> Activation | None:
        """What the person's newest message activates, until its turn is over. A name that is no skill is plain text."""
        if not messages or _ends_turn(messages[-1]):
            return None
        index = next((i for i in range(len(messages) - 1, -1, -1) if _is_said(messages[i])), None)
        command = _COMMAND.match(messages[index].text) if index is not None else None
        if index is None or command is None:
            return None
        skill = next((skill for skill in self._usable() if skill.name == command[1]), None)
        return Activation(index, _text(skill), skill.reference()) if skill else None

    def _usable(self) -> list[Skill]:
        skills = self._catalogue.usable()
        return [skill for skill in skills if self._names is None or skill.name in self._names]


def _ends_turn(message: BaseMessage) -> bool:
    return is_ai(message) and not tool_call_ids(message)


def _is_said(message: BaseMessage) -> bool:
    """A person's own message. The answer to a question in the middle of a turn does not end the turn."""
    return is_human(message) and is_real_user_message(message) and not is_clarification_answer(message)


def _text(skill: Skill) -> str:
    return _ACTIVATED.format(
        name=skill.name, folder=skill.folder, instructions=neutralise(skill.instructions)
    )
