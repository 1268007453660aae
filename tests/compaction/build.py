"""Short words for making messages."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import count
from typing import Any

from langchain_core.messages import AIMessage, BaseMessage, HumanMessage, SystemMessage, ToolMessage

from app.compaction.tokens import TokenCounter
from app.compaction.trigger import ResolvedPolicy, resolve
from app.compaction.types import CompactionPolicy, ContextSize

_numbers = count()


def new_id() -> str:
    return f"m{next(_numbers)}"


def human(text: Any = "question", **fields: Any) -> HumanMessage:
    return HumanMessage(content=text, **{"id": new_id(), **fields})


def hidden(text: str = "nudge", **flags: Any) -> HumanMessage:
    return human(text, additional_kwargs={"hide_from_ui": True, **flags})


def system(text: str = "rules", **fields: Any) -> SystemMessage:
    return SystemMessage(content=text, **{"id": new_id(), **fields})


def reminder(date: str | None = "2026-01-01", **fields: Any) -> SystemMessage:
    flags = {"dynamic_context_reminder": True, "hide_from_ui": True}
    dated = flags if date is None else {**flags, "reminder_date": date}
    return system(f"<current_date>{date}</current_date>", additional_kwargs=dated, **fields)


def memory(base: str, text: str = "likes tea") -> HumanMessage:
    flags = {"dynamic_context_reminder": True, "hide_from_ui": True}
    return human(text, id=f"{base}__memory", additional_kwargs=flags)


def ai(text: Any = "answer", *call_ids: str, tool: str = "read", **fields: Any) -> AIMessage:
    calls = [{"name": tool, "args": {"path": f"/{call_id}"}, "id": call_id} for call_id in call_ids]
    return AIMessage(content=text, **{"id": new_id(), "tool_calls": calls, **fields})


def result(call_id: str, text: Any = "result", **fields: Any) -> ToolMessage:
    return ToolMessage(content=text, tool_call_id=call_id, **{"id": new_id(), **fields})


def tool_round(call_id: str, text: str = "result") -> list[BaseMessage]:
    return [ai("", call_id), result(call_id, text)]


def ids(messages: Iterable[BaseMessage]) -> list[str | None]:
    return [message.id for message in messages]


def flat(count_: int = 10) -> TokenCounter:
    """A counter for which every message has the same size, so that a test can do the sum in its head."""
    return TokenCounter(custom=lambda messages: count_ * len(messages))


def policy(
    *trigger: tuple[str, float], keep: tuple[str, float] = ("messages", 4), **fields: Any
) -> CompactionPolicy:
    sizes = tuple(ContextSize(kind, value) for kind, value in trigger)  # type: ignore[arg-type]
    return CompactionPolicy(trigger=sizes, keep=ContextSize(*keep), **fields)  # type: ignore[arg-type]


def resolved(
    *trigger: tuple[str, float],
    keep: tuple[str, float] = ("messages", 4),
    window: int | None = None,
    **fields: Any,
) -> ResolvedPolicy:
    return resolve(policy(*trigger, keep=keep, **fields), window)


def copies(messages: Sequence[BaseMessage]) -> list[BaseMessage]:
    """The same history as it comes back from a checkpoint: equal messages, none of them the same object."""
    return [message.model_copy(deep=True) for message in messages]
