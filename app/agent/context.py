"""From a thread's state to the compaction library's view of one model call."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from app.agent.durable import durable_frames
from app.agent.summary_message import conversation_of
from app.compaction.types import Context
from app.ports import AgentSpec


def context_of(state: Mapping[str, Any], agent: AgentSpec, window: int | None, reserved: int) -> Context:
    """Everything that a model call of this thread would be made of now (rule B1)."""
    messages, summary, marker = conversation_of(state)
    activation = agent.skills.activated(messages) if agent.skills else None
    activated = activation.text if activation else None
    now, with_summary = durable_frames(state)
    return Context(
        messages=messages,
        summary=summary,
        system=agent.system,
        tools=agent.tools,
        durable=_joined(now, activated),
        durable_next=_joined(with_summary, activated),
        window=window,
        reserved_output=reserved,
        usage_valid_after=(marker or {}).get("after_message_id"),
        hold_tokens=(marker or {}).get("hold_tokens"),
    )


def _joined(*parts: str | None) -> str | None:
    return "\n".join(filter(None, parts)) or None
