"""Keeps the ledger of delegations (rule G3), each entry in the same write as the message that it is about (rule G4)."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import Any

from langchain.agents.middleware import AgentMiddleware, ModelRequest, ModelResponse
from langchain.agents.middleware.types import ExtendedModelResponse
from langchain.tools.tool_node import ToolCallRequest
from langchain_core.messages import BaseMessage, ToolMessage
from langgraph.types import Command

from app.agent.channels.delegations import Delegation, cut_off, dispatched, has_ended, refused
from app.agent.state import FullState
from app.agent.tools.task import TASK_TOOL, outcome_of
from app.compaction.roles import is_ai


class DelegationsMiddleware(AgentMiddleware[FullState, Any]):
    """Around the model: notes what it dispatches. Around the tool: notes what came of it, as the ``task`` tool stamped
    it. What a message says has no part in it, nor has a message that did not come from the tool just now.

    It wraps instead of hooking in before and after, which would cost a step and a checkpoint each.
    """

    state_schema = FullState

    async def awrap_model_call(
        self,
        request: ModelRequest[Any],
        handler: Callable[[ModelRequest[Any]], Awaitable[ModelResponse[Any]]],
    ) -> ModelResponse[Any] | ExtendedModelResponse[Any]:
        state: Any = request.state
        # All tools of a step have ended before the model is called again: what is open was cut off with its run.
        closed = [cut_off(entry) for entry in state.get("delegations") or () if not has_ended(entry)]
        response = await handler(request)
        entries = [*closed, *_dispatches(response.result)]
        if not entries:
            return response
        return ExtendedModelResponse(response, Command(update={"delegations": entries}))

    async def awrap_tool_call(
        self,
        request: ToolCallRequest,
        handler: Callable[[ToolCallRequest], Awaitable[ToolMessage | Command[Any]]],
    ) -> ToolMessage | Command[Any]:
        result = await handler(request)
        if request.tool_call["name"] != TASK_TOOL or not isinstance(result, ToolMessage):
            return result
        entry = outcome_of(result) or refused(str(request.tool_call["id"]))
        return Command(update={"messages": [result], "delegations": [entry]})


def _dispatches(messages: Sequence[BaseMessage]) -> list[Delegation]:
    return [
        dispatched(call)
        for message in messages
        if is_ai(message)
        for call in message.tool_calls
        if call["name"] == TASK_TOOL and call["id"]
    ]
