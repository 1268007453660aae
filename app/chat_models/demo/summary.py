"""A summary without a language model: sentences and names picked from the transcript, in sections (rule D4).

Deterministic, linear in the length of the transcript, and within a limit of tokens.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from langchain_core.messages import BaseMessage

from app.chat_models.demo.excerpts import Excerpts
from app.chat_models.demo.transcript import (
    CLOSING,
    SECTIONS,
    entries,
    existing_summary,
    new_messages,
    parts_of_summary,
)
from app.compaction.fence import NEW_MESSAGES
from app.compaction.roles import is_human, is_system
from app.compaction.shorten import by_sections
from app.compaction.tokens import TokenCounter

_ASKED_LENGTH = re.compile(r"At most about (\d+) tokens")
_COUNT = TokenCounter().text
_FRAME_TOKENS = 60
_SHARES = dict(zip(SECTIONS, (0.25, 0.2, 0.15, 0.2, 0.15, 0.05), strict=True))
# Where the oldest points matter most; elsewhere it is the newest, and of the intent the very first as well.
_OLDEST_FIRST = frozenset({"Constraints", "Artifacts"})


def asks_for_summary(messages: Sequence[BaseMessage]) -> bool:
    """Whether the request is a summary call: one user message with the fenced transcript in it (rule D3)."""
    said = [message for message in messages if not is_system(message)]
    return len(said) == 1 and is_human(said[0]) and new_messages(said[0].text) is not None


def extractive_summary(prompt: str, limit: int) -> str:
    """The summary that ``prompt`` asks for, the one so far folded in, in at most ``limit`` tokens."""
    asked = _ASKED_LENGTH.search(prompt.partition(f"<{NEW_MESSAGES}>")[0])
    limit = min(limit, int(asked[1])) if asked else limit
    so_far = parts_of_summary(existing_summary(prompt) or "")
    excerpts = Excerpts()
    for said in entries(new_messages(prompt) or ""):
        excerpts.read(said)
    points = excerpts.folded_into(so_far)
    text = "\n".join([*_sections(points, limit - _FRAME_TOKENS), CLOSING])
    return by_sections(text, limit, _COUNT)


def _sections(points: dict[str, list[str]], room: int) -> list[str]:
    """Each section within its share of the room; what one leaves goes to those after it."""
    lines: list[str] = []
    spare = 0.0
    for name in SECTIONS:
        share = spare + room * _SHARES[name]
        chosen, used = _chosen(points[name], share, oldest_first=name in _OLDEST_FIRST)
        spare = share - used
        if chosen:
            lines += [f"## {name}", *(f"- {point}" for point in chosen)]
    return lines


def _chosen(points: Sequence[str], room: float, *, oldest_first: bool) -> tuple[list[str], int]:
    """The points that fit, in their order, and their tokens."""
    order = list(range(len(points)))
    if not oldest_first:
        order = [*order[:1], *reversed(order[1:])]
    chosen: list[int] = []
    used = 0
    for index in order:
        tokens = _COUNT(points[index]) + 2
        if used + tokens > room:
            continue
        chosen.append(index)
        used += tokens
    return [points[index] for index in sorted(chosen)], used
