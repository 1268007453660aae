"""How a test gives work to subagents, through the demo model or through the provider stand-in."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from tests.support.answers import Reply, Request, ToolCall, content_text
from tests.support.threads import Thread

GENERAL = "general-purpose"
WITH_SUBAGENTS = {"agents": [{"name": "agent"}]}
"""Sections of config.yaml: an agent with all that agents have."""


def told_to_delegate(*prompts: str, kind: str = GENERAL) -> str:
    """A message by which the demo model makes these delegations, all at once."""
    return "\n".join(
        "/tool task " + json.dumps({"description": f"Task {number}", "prompt": prompt, "subagent_type": kind})
        for number, prompt in enumerate(prompts)
    )


def delegating(*prompts: str, kind: str = GENERAL, first_id: int = 0) -> Reply:
    """A model's answer that makes these delegations, all at once."""
    return Reply(
        "I delegate that.",
        tool_calls=tuple(
            ToolCall(
                "task",
                {"description": f"Task {number}", "prompt": prompt, "subagent_type": kind},
                f"call_task_{number}",
            )
            for number, prompt in enumerate(prompts, start=first_id)
        ),
    )


def system_of(request: Request) -> str:
    """The system prompt of a request."""
    return content_text(request.messages[0].get("content"))


def is_subagents(request: Request) -> bool:
    """Whether a subagent with the shipped prompt asks."""
    return system_of(request).startswith("You are a subagent")


def last_role(request: Request) -> str:
    return str(request.messages[-1]["role"])


async def ledger(thread: Thread) -> list[dict[str, Any]]:
    """The delegations of the thread, as its state has them."""
    return (await thread.values()).get("delegations", [])  # type: ignore[no-any-return]


async def ledger_statuses(thread: Thread) -> list[str]:
    return [entry["status"] for entry in await ledger(thread)]


def results_of(messages: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """The tool messages of ``task`` calls."""
    return [message for message in messages if message["type"] == "tool" and message["name"] == "task"]
