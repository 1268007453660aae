"""The section of the summary."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from app.agent.sections.delegations import DELEGATIONS_HEADING
from app.agent.sections.skills import SKILLS_HEADING
from app.agent.sections.todos import TODOS_HEADING
from app.compaction.fence import neutralise
from app.compaction.shorten import by_sections

SUMMARY_HEADING = "## Conversation summary so far"
MAX_SUMMARY_CHARACTERS = 6000

_TITLES = tuple(
    heading.lstrip("# ").partition(" (")[0]
    for heading in (SUMMARY_HEADING, DELEGATIONS_HEADING, SKILLS_HEADING, TODOS_HEADING)
)
# The summary is the one section of many lines: only there a value could begin a section that is none.
_OUR_HEADING = re.compile(
    rf"^[^\S\n]*#+(?=\s*(?:{'|'.join(map(re.escape, _TITLES))}))", re.IGNORECASE | re.MULTILINE
)
_NEUTRAL_HASH = "＃"


def summary_section(state: Mapping[str, Any]) -> str | None:
    """The live summary, shortened section by section to ``MAX_SUMMARY_CHARACTERS`` (rule G1). A heading in it that
    looks like one of ours is made harmless as a fence is."""
    summary = state.get("summary_text")
    if not summary:
        return None
    text = _OUR_HEADING.sub(lambda found: found[0].replace("#", _NEUTRAL_HASH), neutralise(summary))
    return f"{SUMMARY_HEADING}\n\n{by_sections(text, MAX_SUMMARY_CHARACTERS, len)}"
