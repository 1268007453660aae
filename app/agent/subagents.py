"""Subagents: agents that work on one task inside the run of another agent, in a conversation of their own."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any
from weakref import WeakValueDictionary

from langchain_core.messages import BaseMessage, HumanMessage
from langgraph.errors import GraphBubbleUp
from langgraph.graph.state import CompiledStateGraph

from app.agent.channels.delegations import EndStatus
from app.config import SubagentSettings
from app.errors import ThreadkeepError
from app.telemetry import redact

log = logging.getLogger(__name__)

# Far above what any number of turns needs: those have a limit of their own.
_RECURSION_LIMIT = 100_000

BuildGraph = Callable[[SubagentSettings, str], CompiledStateGraph[Any, Any, Any, Any]]


@dataclass(frozen=True, slots=True)
class Outcome:
    """How a task ended: the subagent's report, or a sentence that says what went wrong."""

    status: EndStatus
    text: str


class Places:
    """How many subagents of a run may be at work; a thread has one run at a time."""

    def __init__(self, limit: int) -> None:
        self.limit = limit
        self._of_threads: WeakValueDictionary[str, asyncio.Semaphore] = WeakValueDictionary()

    def of(self, thread_id: str) -> asyncio.Semaphore:
        return self._of_threads.setdefault(thread_id, asyncio.Semaphore(self.limit))


class Subagents:
    """The types that one agent may give work to. ``build`` makes the graph of a type for a model."""

    def __init__(self, types: Sequence[SubagentSettings], build: BuildGraph, places: Places) -> None:
        self._types: Mapping[str, SubagentSettings] = {kind.name: kind for kind in types}
        self._build = build
        self._places = places

    @property
    def descriptions(self) -> dict[str, str]:
        return {name: kind.description for name, kind in self._types.items()}

    @property
    def max_parallel(self) -> int:
        return self._places.limit

    async def work(self, name: str, prompt: str, model_name: str, call_id: str, thread_id: str) -> Outcome:
        """Work on ``prompt`` inside the run that this is called in. ``model_name`` is the run's (rule E1).

        Whatever goes wrong is an outcome. Waiting for a place does not count as time of the subagent.
        """
        kind = self._types.get(name)
        if kind is None:
            known = ", ".join(self._types)
            return Outcome("failed", f"There is no subagent of the type {name!r}. Known: {known}.")
        async with self._places.of(thread_id):
            return await self._in_time(kind, prompt, kind.model or model_name, call_id)

    async def _in_time(self, kind: SubagentSettings, prompt: str, model_name: str, call_id: str) -> Outcome:
        try:
            async with asyncio.timeout(kind.timeout_s) as deadline:
                return await self._run(kind, prompt, model_name, call_id)
        except GraphBubbleUp:
            # An interrupt inside is one of the run: it pauses here and comes back.
            raise
        except (
            Exception
        ) as error:  # whatever ends a subagent is for the agent to deal with, not the end of its run
            if isinstance(error, TimeoutError) and deadline.expired():
                return Outcome(
                    "timed_out", f"The subagent was stopped: it took longer than {kind.timeout_s:g} s."
                )
            log.warning("subagent %s failed", kind.name, exc_info=error)
            return Outcome("failed", f"The subagent failed: {_why(error)}")

    async def _run(self, kind: SubagentSettings, prompt: str, model_name: str, call_id: str) -> Outcome:
        """The graph is called with nothing but the prompt. Configuration, streams and checkpointer of the run reach it
        through LangGraph, its checkpoints and events under a namespace of their own."""
        state = await self._build(kind, model_name).ainvoke(
            {"messages": [HumanMessage(prompt)]},
            {
                "recursion_limit": _RECURSION_LIMIT,
                "tags": [f"subagent:{kind.name}"],
                "metadata": {"subagent_type": kind.name, "delegation_id": call_id},
            },
        )
        return _outcome(state["messages"][-1])


def _outcome(last: BaseMessage) -> Outcome:
    report = last.text.strip()
    return (
        Outcome("completed", report) if report else Outcome("failed", "The subagent ended without a report.")
    )


def _why(error: Exception) -> str:
    """Our own errors are sentences; of others the class says more than the text alone."""
    if isinstance(error, ThreadkeepError):
        return redact(error.detail)
    return f"{type(error).__name__}: {redact(str(error))}"
