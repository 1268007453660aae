"""What a message is to a compaction: the words of the rules, each as one function.

Roles are read from ``message.type`` rather than with ``isinstance``: pydantic's metaclass makes a failing
``isinstance`` ten times as expensive, and these questions are asked of every message of a thread.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, TypeGuard

from langchain_core.messages import AIMessage, BaseMessage, HumanMessage, SystemMessage, ToolMessage

REMINDER_FLAG = "dynamic_context_reminder"
REMINDER_DATE = "reminder_date"
MEMORY_SUFFIX = "__memory"
USER_SUFFIX = "__user"
HIDDEN_FLAG = "hide_from_ui"
SUMMARY_NAME = "summary"
SUMMARY_FLAG = "conversation_summary"
SUMMARY_SUFFIX = "__summary"
CLARIFICATION_TOOL = "ask_clarification"
CLARIFICATION_ANSWER = "human_input_response"

_AI_TYPES = frozenset({"ai", "AIMessageChunk"})
_HUMAN_TYPES = frozenset({"human", "HumanMessageChunk"})
_SYSTEM_TYPES = frozenset({"system", "SystemMessageChunk"})
_TOOL_TYPES = frozenset({"tool", "ToolMessageChunk"})
# Tuples, since the type of an imported block may be anything, also something that cannot be hashed.
_REASONING_BLOCKS = ("reasoning", "thinking", "redacted_thinking")
_CALL_BLOCKS = ("tool_use", "tool_call")


def is_ai(message: BaseMessage) -> TypeGuard[AIMessage]:
    return message.type in _AI_TYPES


def is_human(message: BaseMessage) -> TypeGuard[HumanMessage]:
    return message.type in _HUMAN_TYPES


def is_system(message: BaseMessage) -> TypeGuard[SystemMessage]:
    return message.type in _SYSTEM_TYPES


def is_tool_result(message: BaseMessage) -> TypeGuard[ToolMessage]:
    return message.type in _TOOL_TYPES


def is_reminder(message: BaseMessage) -> bool:
    """Whether the dynamic context put the message there (a date or a memory block), by its flag alone."""
    return bool(message.additional_kwargs.get(REMINDER_FLAG))


def is_hidden(message: BaseMessage) -> bool:
    return bool(message.additional_kwargs.get(HIDDEN_FLAG))


def is_clarification_answer(message: BaseMessage) -> bool:
    """Whether the message answers a clarification: the result of an ``ask_clarification`` call, or a human
    message that carries the answer of a form, hidden or not."""
    if is_tool_result(message):
        return message.name == CLARIFICATION_TOOL
    return is_human(message) and bool(message.additional_kwargs.get(CLARIFICATION_ANSWER))


def is_real_user_message(message: BaseMessage) -> bool:
    """Whether a person said this: a human message that is neither hidden, nor a reminder, nor named
    ``summary``, or an answer to a clarification, hidden or not."""
    if is_clarification_answer(message):
        return True
    if not is_human(message) or is_hidden(message) or is_reminder(message):
        return False
    return message.name != SUMMARY_NAME


def is_reasoning_only(message: BaseMessage) -> bool:
    """Whether a model's message holds reasoning and nothing that it said or called."""
    content = message.content
    if not is_ai(message) or not isinstance(content, list) or not content or tool_call_ids(message):
        return False
    return all(isinstance(block, dict) and block.get("type") in _REASONING_BLOCKS for block in content)


def tool_call_ids(message: BaseMessage) -> tuple[str, ...]:
    """Ids of the tool calls that a provider will see on this message, in order, repeated ids included.

    Calls that did not parse count too: providers get them back and want a result for each. Calls without an
    id cannot be answered and are left out."""
    if not is_ai(message):
        return ()
    calls: Sequence[Any] = [*message.tool_calls, *message.invalid_tool_calls] or _raw_calls(message)
    return tuple(call["id"] for call in calls if call.get("id") and isinstance(call["id"], str))


def _raw_calls(message: AIMessage) -> list[dict[str, Any]]:
    """Calls that stand only in the provider's own form, where LangChain left both parsed lists empty."""
    raw = message.additional_kwargs.get("tool_calls")
    if isinstance(raw, list):
        return [call for call in raw if isinstance(call, dict)]
    if isinstance(message.content, list):
        return [b for b in message.content if isinstance(b, dict) and b.get("type") in _CALL_BLOCKS]
    return []
