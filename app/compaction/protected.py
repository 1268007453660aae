"""Messages that no compaction removes, and reminders that it drops (rules C4, C5)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from langchain_core.messages import BaseMessage

from app.compaction.history import History
from app.compaction.roles import (
    CLARIFICATION_TOOL,
    MEMORY_SUFFIX,
    REMINDER_DATE,
    is_human,
    is_real_user_message,
    is_reminder,
    is_system,
    is_tool_result,
)

# Why a message stays that belongs to a protected one: its call, a result, the question of an answer.
_MATE = "tool_pair"


@dataclass(frozen=True, slots=True)
class Protection:
    """By position: ``reasons`` why a message stays whatever the cut, as one word; the ``superseded``
    reminders; the pinned messages that are ``over_budget`` and so are treated like any other."""

    reasons: Mapping[int, str]
    superseded: frozenset[int]
    over_budget: frozenset[int]


def protection(history: History, costs: Sequence[int], pinned: frozenset[str], pin_budget: int) -> Protection:
    """What is protected in a history: system messages, current reminders, the newest real user message, pins.

    A protected message brings its tool call and all results of it along. The newest pins are served first; a
    pin that no longer fits into ``pin_budget`` tokens is passed over. A pin on a protected message costs
    nothing."""
    superseded = superseded_reminders(history.messages)
    reasons = {
        index: "reminder" if is_reminder(message) else "system"
        for index, message in enumerate(history.messages)
        if (is_system(message) or is_reminder(message)) and index not in superseded
    }
    newest = newest_user_message(history)
    if newest is not None:
        for member in _request(history, newest):
            reasons.setdefault(member, "newest_user_message" if member == newest else _MATE)
    over_budget = _protect_pins(reasons, history, costs, pinned, pin_budget) if pinned else frozenset()
    return Protection(reasons, superseded - reasons.keys(), over_budget)


def newest_user_message(history: History) -> int | None:
    """Position of the newest real user message, answers to clarifications included; None without one."""
    positions = range(len(history) - 1, -1, -1)
    return next((index for index in positions if _is_said_by_user(history, index)), None)


def superseded_reminders(messages: Sequence[BaseMessage]) -> frozenset[int]:
    """Positions of reminders of an older date than the current one, and of memory that newer memory replaced.

    The current date is the last one; a reminder without a date supersedes nothing and is never superseded."""
    reminders = [(index, message) for index, message in enumerate(messages) if is_reminder(message)]
    dates = [(index, date) for index, m in reminders if (date := m.additional_kwargs.get(REMINDER_DATE))]
    memory = [index for index, m in reminders if m.id and m.id.endswith(MEMORY_SUFFIX)]
    older_dates = (index for index, date in dates if date != dates[-1][1])
    return frozenset(older_dates) | frozenset(memory[:-1])


def _request(history: History, index: int) -> tuple[int, ...]:
    """A user's message with what it cannot be understood without: an answer with its question, wherever the
    answer stands: in the result of the clarification, or in a message behind it, hidden or not."""
    before, behind = _neighbour(history, index, -1), _neighbour(history, index, 1)
    request = history.group(index)
    if is_tool_result(history.messages[index]):
        return (*request, behind) if behind is not None and is_human(history.messages[behind]) else request
    return (*history.group(before), *request) if before is not None and _answers(history, before) else request


def _protect_pins(
    reasons: dict[int, str], history: History, costs: Sequence[int], pinned: frozenset[str], budget: int
) -> frozenset[int]:
    over_budget: set[int] = set()
    for index in range(len(history) - 1, -1, -1):
        if history.messages[index].id not in pinned or index in reasons or index in over_budget:
            continue
        group = history.group(index)
        price = sum(costs[member] for member in group if member not in reasons)
        if price > budget:
            over_budget.update(member for member in group if history.messages[member].id in pinned)
            continue
        budget -= price
        for member in group:
            reasons.setdefault(member, "pinned" if history.messages[member].id in pinned else _MATE)
    return frozenset(over_budget)


def _is_said_by_user(history: History, index: int) -> bool:
    return is_real_user_message(history.messages[index]) or _answers(history, index)


def _neighbour(history: History, index: int, step: int) -> int | None:
    """Position of the message before (-1) or behind (1), reminders passed over."""
    positions = range(index + step, len(history) if step > 0 else -1, step)
    return next((i for i in positions if not is_reminder(history.messages[i])), None)


def _answers(history: History, index: int) -> bool:
    """Whether the message is the result of an ``ask_clarification`` call, named or not."""
    message = history.messages[index]
    if not is_tool_result(message):
        return False
    owner = history.owners.get(index)
    if message.name or owner is None:
        return message.name == CLARIFICATION_TOOL
    return (owner, message.tool_call_id) in history.clarifications
