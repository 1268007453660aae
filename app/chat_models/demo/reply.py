"""What the demo model answers: what it sees of the conversation, and the calls it was told to make."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any
from uuid import uuid4

from langchain_core.messages import AIMessage, BaseMessage, ToolCall, ToolMessage

from app.chat_models.demo.commands import ToolRequest, parse_commands
from app.chat_models.demo.transcript import block
from app.compaction.fence import DURABLE_CONTEXT, USER_MEMORY
from app.compaction.roles import (
    is_ai,
    is_human,
    is_real_user_message,
    is_reminder,
    is_system,
    is_tool_result,
)
from app.errors import ModelError

NOTICE = "Demo model: no language model is behind this answer."
SLOW_DELAY_S = 0.05

_SUMMARY_HEADING = "## Conversation summary so far"
_CALL_ID = re.compile(r"demo-(\d+)-\d+-[0-9a-f]+")
_LONGEST_QUOTE = 200


@dataclass(frozen=True, slots=True)
class Turn:
    """One answer. ``delay_s`` is seconds per token, None for the model's own pace."""

    message: AIMessage
    delay_s: float | None = None


def answer(messages: Sequence[BaseMessage], tools: Sequence[str]) -> Turn:
    """The answer to a request with these ``tools`` bound. Raises ModelError when the person wrote
    ``/error``."""
    asked = _last_asked(messages)
    since = messages[asked + 1 :]
    question = messages[asked].text if asked >= 0 else ""
    commands = parse_commands(question)
    first = not any(is_ai(message) for message in since)
    if first and commands.error is not None:
        raise ModelError(f"the demo model was told to fail: {commands.error or 'no reason given'}")
    thought = commands.thought if first else None
    number = _rounds_done(since)
    if number < len(commands.rounds):
        return _with_calls(commands.rounds[number], number, tools, thought)
    if first and commands.slow is not None:
        return Turn(AIMessage(_slow_text(commands.slow)), SLOW_DELAY_S)
    return Turn(_message(_remarks(messages, question, since), thought))


def _last_asked(messages: Sequence[BaseMessage]) -> int:
    """Where the person spoke last: a real user message, else any human one; -1 when there is none."""
    humans = [i for i, message in enumerate(messages) if is_human(message)]
    real = [i for i in humans if is_real_user_message(messages[i])]
    return (real or humans or [-1])[-1]


def _rounds_done(since: Sequence[BaseMessage]) -> int:
    """Rounds of calls made in this turn. The ids of the calls say it, because a compaction may have taken
    earlier rounds out of the request."""
    made = [call["id"] for message in since if is_ai(message) for call in message.tool_calls]
    return max((_round_of(call_id) for call_id in made), default=-1) + 1


def _round_of(call_id: str | None) -> int:
    found = _CALL_ID.fullmatch(call_id or "")
    return int(found[1]) if found else -1


def _with_calls(calls: Sequence[ToolRequest], number: int, tools: Sequence[str], thought: str | None) -> Turn:
    """All calls of a round at once, or none and the reason when one of them cannot be made."""
    problems = [f"{call.name or '/tool'}: {why}" for call in calls if (why := _problem(call, tools))]
    if problems:
        return Turn(_message(f"{NOTICE} I made no call. {'; '.join(problems)}.", thought))
    text = f"{NOTICE} As you asked, I call {', '.join(call.name for call in calls)}."
    made = [
        ToolCall(name=call.name, args=call.args, id=f"demo-{number}-{index}-{uuid4().hex[:12]}")
        for index, call in enumerate(calls)
    ]
    return Turn(_message(text, thought, made))


def _problem(call: ToolRequest, tools: Sequence[str]) -> str | None:
    if call.problem is not None or call.name in tools:
        return call.problem
    return f"no tool of that name is bound (bound: {', '.join(tools) or 'none'})"


def _message(text: str, thought: str | None, calls: Sequence[ToolCall] = ()) -> AIMessage:
    if thought is None:
        return AIMessage(text, tool_calls=list(calls))
    reasoning = thought or "There is nothing to think about: I repeat what I see."
    blocks: list[str | dict[str, Any]] = [
        {"type": "reasoning", "reasoning": reasoning},
        {"type": "text", "text": text},
    ]
    return AIMessage(blocks, tool_calls=list(calls))


def _slow_text(tokens: int) -> str:
    return " ".join([NOTICE, *map(str, range(1, tokens + 1))])


def _remarks(messages: Sequence[BaseMessage], question: str, since: Sequence[BaseMessage]) -> str:
    said = f"You wrote: “{_quoted(question)}”." if question.strip() else "You wrote nothing I can read."
    results = [message for message in since if is_tool_result(message)]
    remarks = [_counts(messages), *_memory_remark(messages), _summary_remark(messages)]
    parts = [NOTICE, said, *map(_result, results), *remarks]
    return " ".join([*parts, "Give config.yaml a model with a key to get real answers."])


def _result(message: ToolMessage) -> str:
    outcome = "failed" if message.status == "error" else "answered"
    return f"The tool {message.name or '(unnamed)'} {outcome}: “{_quoted(message.text)}”."


def _counts(messages: Sequence[BaseMessage]) -> str:
    seen = Counter(_kind(message) for message in messages if not is_system(message))
    kinds = ("from you", "from me", "from tools", "added by the application")
    listed = ", ".join(f"{seen[kind]} {kind}" for kind in kinds if seen[kind])
    total = seen.total()
    return f"I see {total} message{'' if total == 1 else 's'} ({listed})."


def _kind(message: BaseMessage) -> str:
    if is_ai(message):
        return "from me"
    if is_tool_result(message):
        return "from tools"
    return "from you" if is_real_user_message(message) else "added by the application"


def _memory_remark(messages: Sequence[BaseMessage]) -> list[str]:
    blocks = (
        block(message.text, USER_MEMORY) for message in messages if is_human(message) and is_reminder(message)
    )
    return [f"Of you I was told: “{_quoted(told)}”." for told in blocks if told]


def _summary_remark(messages: Sequence[BaseMessage]) -> str:
    for message in messages:
        if is_human(message) and f"<{DURABLE_CONTEXT}>" in message.text:
            _, heading, summary = message.text.partition(_SUMMARY_HEADING)
            if heading:
                return f"A summary of the earlier conversation is present; it begins “{_quoted(summary)}”."
    return "There is no summary of an earlier conversation."


def _quoted(text: str) -> str:
    # A whole file may stand here; only as much as a quotation can need is looked at.
    line = " ".join(text[: 4 * _LONGEST_QUOTE].split())
    return (
        line
        if len(line) <= _LONGEST_QUOTE and len(text) <= 4 * _LONGEST_QUOTE
        else f"{line[:_LONGEST_QUOTE]}…"
    )
