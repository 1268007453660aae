"""The ``task`` tool: gives a piece of work to a subagent and waits for its report."""

from __future__ import annotations

import secrets
from collections.abc import Mapping
from typing import Annotated, Any

from langchain.tools import ToolRuntime
from langchain_core.messages import ToolMessage
from langchain_core.tools import BaseTool, StructuredTool
from pydantic import BaseModel, Field, WithJsonSchema, create_model

from app.agent.channels.delegations import Delegation, ended
from app.agent.subagents import Subagents

TASK_TOOL = "task"
STAMP = "delegation_entry"
"""Where a result carries its entry of the ledger: in the ``artifact``, which no model sees and no client may write."""

_DESCRIPTION = """\
Give a piece of work to a subagent, which does it with a fresh context of its own, and get its report. Use it for work \
of many steps whose details you need not see; do small things yourself. It sees nothing of this conversation: `prompt` \
holds everything it has to know, and says what to report. Make several calls at once for independent pieces of work; \
{limit} are worked on at a time. Types of subagents:
{types}"""

Runtime = ToolRuntime[Any, Any]


def task_tool(subagents: Subagents, model_name: str) -> BaseTool:
    """The tool for an agent that runs on ``model_name``."""
    listed = "\n".join(f"- {name}: {text}" for name, text in subagents.descriptions.items())
    return StructuredTool.from_function(
        coroutine=_Task(subagents, model_name).run,
        name=TASK_TOOL,
        description=_DESCRIPTION.format(limit=subagents.max_parallel, types=listed),
        args_schema=_arguments(subagents.descriptions),
    )


def outcome_of(message: ToolMessage) -> Delegation | None:
    """What the tool stamped on its result; None on a message that is not from it."""
    artifact = message.artifact
    return artifact.get(STAMP) if isinstance(artifact, dict) else None


class _Task:
    def __init__(self, subagents: Subagents, model_name: str) -> None:
        self._subagents = subagents
        self._model_name = model_name

    async def run(self, description: str, prompt: str, subagent_type: str, runtime: Runtime) -> ToolMessage:
        call_id = str(runtime.tool_call_id)
        outcome = await self._subagents.work(
            subagent_type, prompt, self._model_name, call_id, _thread_id(runtime)
        )
        message_id = f"{TASK_TOOL}-{secrets.token_hex(8)}"
        return ToolMessage(
            content=outcome.text,
            artifact={STAMP: ended(call_id, outcome.status, outcome.text, message_id)},
            status="success" if outcome.status == "completed" else "error",
            name=TASK_TOOL,
            tool_call_id=call_id,
            id=message_id,
        )


def _arguments(types: Mapping[str, str]) -> type[BaseModel]:
    """A wrong type is answered by the tool itself, in a sentence; the schema only says which there are."""
    return create_model(
        TASK_TOOL,
        description=Annotated[str, Field(description="The task in three to seven words, for people.")],
        prompt=Annotated[str, Field(description="The whole task, with everything the subagent has to know.")],
        subagent_type=Annotated[str, WithJsonSchema({"type": "string", "enum": list(types)})],
    )


def _thread_id(runtime: Runtime) -> str:
    return str(runtime.config.get("configurable", {}).get("thread_id"))
