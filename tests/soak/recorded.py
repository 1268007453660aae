"""A hosted agent that writes down when it is at work, so that a test sees who was when."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Awaitable, Callable
from typing import Any

from langchain.agents import create_agent
from langchain.agents.middleware import AgentMiddleware, ModelRequest, ModelResponse
from langchain_core.tools import tool
from langgraph.config import get_config

from app.agent import compaction_middleware
from app.chat_models.demo import DemoChatModel

RECORD = "SOAK_RECORD"
"""The environment variable with the file that all processes write to."""


class Recorder(AgentMiddleware[Any, Any]):
    """One line when a model call begins and one when it is over, also when it was cancelled."""

    async def awrap_model_call(
        self, request: ModelRequest, handler: Callable[[ModelRequest], Awaitable[ModelResponse]]
    ) -> ModelResponse:
        note("enter")
        try:
            return await handler(request)
        finally:
            note("leave")


def note(what: str) -> None:
    place = get_config()["configurable"]
    line = {
        "what": what,
        # The clock of the machine: the same in all processes.
        "at": time.clock_gettime(time.CLOCK_MONOTONIC),
        "pid": os.getpid(),
        "thread": place["thread_id"],
        "run": place["run_id"],
        "attempt": place["run_attempt"],
    }
    # One write to the end of the file is never mixed with another.
    file = os.open(os.environ[RECORD], os.O_WRONLY | os.O_APPEND | os.O_CREAT)
    try:
        os.write(file, f"{json.dumps(line)}\n".encode())
    finally:
        os.close(file)


@tool
def measure(bed: str) -> str:
    """How large a bed is."""
    return f"{bed} is two metres long. " * 12


def agent() -> Any:
    return create_agent(
        DemoChatModel(token_delay_s=0.002), [measure], middleware=[Recorder(), *compaction_middleware()]
    )
