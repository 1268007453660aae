"""What a provider reported about the size of a request, where that can still be believed (rule B3)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from langchain_core.messages import AIMessage, BaseMessage

from app.compaction.roles import is_ai

# Looking further back costs more than it tells: what follows the report is estimated anyway.
_LOOK_BACK: Final = 100
# Tokenizers and this estimate differ by a third or so; beyond these ratios the report is about another
# request (an imported history, another thread's message) or leaves something out (cached tokens).
_LEAST_RATIO: Final = 0.5
_MOST_RATIO: Final = 3.0


@dataclass(frozen=True, slots=True)
class Report:
    """The request that produced the message at ``index`` had ``tokens`` tokens, says its provider."""

    index: int
    tokens: int


def newest_report(messages: Sequence[BaseMessage], valid_after: str | None) -> Report | None:
    """The newest usage that was reported after the last compaction, if any.

    ``valid_after`` is the id of the last message of the history that the last compaction committed: what was
    reported up to it is void. If the history no longer holds that message, nothing is valid."""
    for index in range(len(messages) - 1, max(-1, len(messages) - 1 - _LOOK_BACK), -1):
        message = messages[index]
        if valid_after is not None and message.id == valid_after:
            return None
        if is_ai(message) and (tokens := _input_tokens(message)):
            return Report(index, tokens) if _is_after(messages, index, valid_after) else None
    return None


def scale_of(reported: int, estimated: int) -> float | None:
    """True tokens / estimated tokens; None when the report is not plausible."""
    if estimated <= 0:
        return None
    ratio = reported / estimated
    return ratio if _LEAST_RATIO <= ratio <= _MOST_RATIO else None


def _input_tokens(message: AIMessage) -> int:
    usage = message.usage_metadata
    tokens = usage.get("input_tokens") if usage else None
    return tokens if type(tokens) is int and tokens > 0 else 0


def _is_after(messages: Sequence[BaseMessage], index: int, message_id: str | None) -> bool:
    return message_id is None or any(messages[i].id == message_id for i in range(index - 1, -1, -1))
