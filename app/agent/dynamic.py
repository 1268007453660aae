"""Dynamic context: today's date and what is known of the person, put beside the newest question (rules H1, H2).

The static system prompt never changes, so that a provider's prefix cache holds; what changes stands in the thread, once
a day. The reminder takes the id of the question and the question moves behind it under ``{id}__user``: the next run
finds both where they are, and nothing has to be remembered elsewhere.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from datetime import date, datetime, tzinfo
from uuid import uuid4

from langchain_core.messages import BaseMessage, HumanMessage, RemoveMessage, SystemMessage
from langgraph.graph.message import REMOVE_ALL_MESSAGES

from app.compaction.roles import (
    HIDDEN_FLAG,
    MEMORY_SUFFIX,
    REMINDER_DATE,
    REMINDER_FLAG,
    USER_SUFFIX,
    is_human,
    is_real_user_message,
    is_reminder,
)

DYNAMIC_CONTEXT_NODE = "DynamicContextMiddleware.before_agent"
"""Where a thread stands that has a question without its context."""

_DAYS = ("Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday")

Recall = Callable[[str], Awaitable[str | None]]


@dataclass(frozen=True, slots=True)
class DynamicContext:
    """Where it comes from. ``now`` is the clock, ``zone`` decides when a day ends, ``recall`` gives for a thread id the
    block of what is known of its person, or None."""

    now: Callable[[], datetime]
    zone: tzinfo
    recall: Recall | None = None

    def today(self) -> date:
        return self.now().astimezone(self.zone).date()


@dataclass(frozen=True, slots=True)
class Outlook:
    """The messages of a thread, and where today's reminder is missing: before the question at ``at`` (None: nowhere).

    ``wants_memory``: there is room for what is known of the person, and the thread does not have it yet.
    ``new_day``: there is a reminder of another day.
    """

    messages: tuple[BaseMessage, ...]
    at: int | None = None
    wants_memory: bool = False
    new_day: bool = False


def outlook(messages: Sequence[BaseMessage], today: date) -> Outlook:
    """What today's reminder needs. It belongs to the newest real user message and to no other: a question that moves is
    taken for the current one."""
    settled = _settled(messages)
    known = _current_date(settled)
    at = None if known == today.isoformat() else _newest_question(settled)
    if at is None:
        return Outlook(settled)
    replaced = _reminder_before(settled, at) is not None
    remembered = any(is_reminder(m) and (m.id or "").endswith(MEMORY_SUFFIX) for m in settled)
    return Outlook(settled, at, wants_memory=not (replaced or remembered), new_day=known is not None)


def with_reminder(seen: Outlook, today: date, memory: str | None) -> list[BaseMessage]:
    """The messages as they should be: today's reminder, ``memory`` if there is any, the question (rule H1)."""
    messages = list(seen.messages)
    if seen.at is None:
        return messages
    question = messages[seen.at]
    stem = (question.id or str(uuid4())).removesuffix(USER_SUFFIX)
    reminder = _reminder(stem, today, new_day=seen.new_day)
    old = _reminder_before(messages, seen.at)
    if old is not None:
        messages[old] = reminder
        return messages
    if question.id != f"{stem}{USER_SUFFIX}":
        messages[seen.at] = question.model_copy(update={"id": f"{stem}{USER_SUFFIX}"})
    if memory and seen.wants_memory:
        messages.insert(seen.at, _memory(stem, memory))
    follows_memory = seen.at > 0 and messages[seen.at - 1].id == f"{stem}{MEMORY_SUFFIX}"
    messages.insert(seen.at - follows_memory, reminder)
    return messages


def smallest_write(before: Sequence[BaseMessage], after: Sequence[BaseMessage]) -> list[BaseMessage]:
    """The messages to write, so that either reducer makes ``after`` of ``before``.

    A message of a known id is replaced where it stands, a new one comes last. That is all a run needs whose question is
    the last message. Only where something new belongs in between is everything written anew.
    """
    held, wanted = {message.id: message for message in before}, {message.id for message in after}
    staying = [message.id for message in before if message.id in wanted]
    if None in held or [message.id for message in after[: len(staying)]] != staying:
        return [RemoveMessage(id=REMOVE_ALL_MESSAGES), *after]
    gone = [RemoveMessage(id=str(message_id)) for message_id in held if message_id not in wanted]
    return [*gone, *(message for message in after if held.get(message.id) is not message)]


def _settled(messages: Sequence[BaseMessage]) -> tuple[BaseMessage, ...]:
    """The messages with every question that was sent again put where it stands now.

    To a client, a question has the id that it was sent with; here that is the reminder's. Who retries or edits it, or
    sends the whole conversation each time, overwrites the reminder.
    """
    places = {message.id: index for index, message in enumerate(messages)}
    settled: list[BaseMessage | None] = list(messages)
    for index, message in enumerate(messages):
        moved = places.get(f"{message.id}{USER_SUFFIX}") if message.id else None
        if moved is None or is_reminder(message):
            continue
        settled[index] = None
        if is_human(message):
            settled[moved] = message.model_copy(update={"id": f"{message.id}{USER_SUFFIX}"})
    return tuple(message for message in settled if message is not None)


def _current_date(messages: Sequence[BaseMessage]) -> str | None:
    """The date that the model was told last, from the flag alone: text can say anything."""
    dates = (
        message.additional_kwargs.get(REMINDER_DATE) for message in reversed(messages) if is_reminder(message)
    )
    return next((found for found in dates if found), None)


def _newest_question(messages: Sequence[BaseMessage]) -> int | None:
    positions = range(len(messages) - 1, -1, -1)
    return next((i for i in positions if is_human(messages[i]) and is_real_user_message(messages[i])), None)


def _reminder_before(messages: Sequence[BaseMessage], at: int) -> int | None:
    """Position of the reminder of a question that was moved already: it is brought up to date, and no id ever gets a
    second suffix (rule H2)."""
    question_id = messages[at].id or ""
    if not question_id.endswith(USER_SUFFIX):
        return None
    stem = question_id.removesuffix(USER_SUFFIX)
    return next((i for i, message in enumerate(messages) if message.id == stem), None)


def _reminder(message_id: str, today: date, *, new_day: bool) -> SystemMessage:
    opening = "The date has changed. " if new_day else ""
    return SystemMessage(
        content=f"{opening}Today is {_DAYS[today.weekday()]}, {today.isoformat()}.",
        id=message_id,
        additional_kwargs={HIDDEN_FLAG: True, REMINDER_FLAG: True, REMINDER_DATE: today.isoformat()},
    )


def _memory(stem: str, block: str) -> HumanMessage:
    """Without a date, and not a system message: what is remembered came from people."""
    return HumanMessage(
        content=block,
        id=f"{stem}{MEMORY_SUFFIX}",
        additional_kwargs={HIDDEN_FLAG: True, REMINDER_FLAG: True},
    )
