"""The section of the summary."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from app.compaction.fence import neutralise
from app.compaction.shorten import by_sections

SUMMARY_HEADING = "## Conversation summary so far"
MAX_SUMMARY_CHARACTERS = 6000


def summary_section(state: Mapping[str, Any]) -> str | None:
    """The live summary, shortened section by section to ``MAX_SUMMARY_CHARACTERS`` (rule G1)."""
    summary = state.get("summary_text")
    if not summary:
        return None
    return f"{SUMMARY_HEADING}\n\n{by_sections(neutralise(summary), MAX_SUMMARY_CHARACTERS, len)}"
