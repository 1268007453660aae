"""The parts of the durable block, a file each (rule G1).

A section is given the thread's state and answers with its part of the block, or None when it has nothing to show. It
neutralises the fences in what it shows, caps it after that, and puts untrusted text on lines of its own.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from app.agent.sections.delegations import delegations_section
from app.agent.sections.skills import skills_section
from app.agent.sections.summary import summary_section
from app.agent.sections.todos import todos_section

Section = Callable[[Mapping[str, Any]], str | None]

BESIDE_SUMMARY: tuple[Section, ...] = (delegations_section, skills_section, todos_section)
"""In the order in which they are shown, behind the summary."""

SECTIONS: tuple[Section, ...] = (summary_section, *BESIDE_SUMMARY)
