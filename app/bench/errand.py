"""Many steps with large results: how often a thread is compacted, and how much of what goes was read before."""

from __future__ import annotations

import random
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from statistics import mean
from typing import Any
from uuid import uuid4

from langchain.agents import create_agent
from langchain.agents.middleware import SummarizationMiddleware as LangChainMiddleware
from langchain_core.messages import BaseMessage, HumanMessage
from langchain_core.tools import BaseTool, StructuredTool
from langgraph.graph.message import add_messages
from langgraph.graph.state import CompiledStateGraph

from app.bench.histories import prose
from app.bench.models import MODEL_NAME, TOOL_NAME, BenchModel, OneModel
from app.bench.rig import OWNER, assemble
from app.config import Settings
from app.config.agents import DEFAULT_AGENT
from app.persistence.database import Database

_COMPACTION_NODE = "SummarizationMiddleware.before_model"
_MARK = r"§\d+:\d+"
_LINE_CHARS = 70
# What the reference is shipped with.
_REFERENCE_TOKENS, _REFERENCE_KEEP = 15564, 10


@dataclass(frozen=True, slots=True)
class Errand:
    """One question that takes ``steps`` calls of a tool, each with a result of ``result_chars``."""

    steps: int = 40
    result_chars: int = 28_000


@dataclass(frozen=True, slots=True)
class ErrandFigures:
    """What became of an errand. ``read_share`` is the share of the removed lines of tool results that stood in the
    prompt of a summary call; ``summary_chars`` are the characters of all those prompts, ``request_chars`` those of a
    call of the run itself on average."""

    middleware: str
    trigger: str
    keep: str
    steps: int
    result_chars: int
    compactions: int
    summary_calls: int
    summary_chars: int
    request_chars: float
    read_share: float


async def measure_errand(settings: Settings, database: Database, errand: Errand) -> list[ErrandFigures]:
    """The same errand with the same scripted model: under the summarization settings in force, and with LangChain's
    middleware as the reference ships it."""
    return [await _ours(settings, database, errand), await _theirs(errand)]


async def _ours(settings: Settings, database: Database, errand: Errand) -> ErrandFigures:
    summarization = settings.summarization.model_copy(update={"model_name": None})
    window = next((model.context_window for model in settings.models if model.context_window), None)
    settings = replace(settings, agents=(DEFAULT_AGENT,), summarization=summarization)
    model = _model(errand)
    rig = assemble(settings, database.pool, OneModel(model, window), [_tool(errand)], model)
    thread_id = str(uuid4())
    await rig.threads.create(thread_id, OWNER, {"graph_id": DEFAULT_AGENT.name})
    log = await _done(rig.graphs.for_run(DEFAULT_AGENT.name, MODEL_NAME), thread_id, errand)
    policy = summarization.policy
    trigger = " or ".join(f"{size.kind} {size.value:g}" for size in policy.trigger) or "none"
    return _figures("threadkeep", trigger, f"{policy.keep.kind} {policy.keep.value:g}", errand, model, log)


async def _theirs(errand: Errand) -> ErrandFigures:
    model = _model(errand)
    middleware: LangChainMiddleware[Any, Any] = LangChainMiddleware(
        model,
        trigger=("tokens", _REFERENCE_TOKENS),
        keep=("messages", _REFERENCE_KEEP),
        trim_tokens_to_summarize=_REFERENCE_TOKENS,
    )
    graph = create_agent(model, [_tool(errand)], middleware=[middleware])
    log = await _done(graph, str(uuid4()), errand)
    trigger, keep = f"tokens {_REFERENCE_TOKENS}", f"messages {_REFERENCE_KEEP}"
    return _figures("langchain", trigger, keep, errand, model, log)


class _Log:
    """Follows the messages of a thread by the updates of its graph."""

    def __init__(self) -> None:
        self.compactions = 0
        self.removed: set[str] = set()
        self._live: Sequence[BaseMessage] = ()

    def note(self, node: str, update: Mapping[str, Any] | None) -> None:
        if not update or "messages" not in update:
            return
        before = self._live
        self._live = add_messages(list(before), update["messages"])  # type: ignore[assignment, arg-type]
        if node != _COMPACTION_NODE:
            return
        self.compactions += 1
        kept = {message.id for message in self._live}
        gone = (message.text for message in before if message.id not in kept)
        self.removed.update(mark for text in gone for mark in re.findall(_MARK, text))


async def _done(graph: CompiledStateGraph[Any, Any, Any, Any], thread_id: str, errand: Errand) -> _Log:
    log = _Log()
    question = HumanMessage("Look up every entry and tell me what stands out.", id="question")
    log.note("input", {"messages": [question]})
    config: Any = {"configurable": {"thread_id": thread_id}, "recursion_limit": 10 * errand.steps + 50}
    async for updates in graph.astream({"messages": [question]}, config, stream_mode="updates"):
        for node, update in updates.items():
            log.note(node, update)
    return log


def _model(errand: Errand) -> BenchModel:
    return BenchModel(steps=errand.steps, marks=_MARK)


def _tool(errand: Errand) -> BaseTool:
    rng = random.Random(1)

    async def look_up(entry: int) -> str:
        """Look up an entry."""
        lines = (
            f"§{entry}:{number} {prose(rng, _LINE_CHARS)}"
            for number in range(errand.result_chars // _LINE_CHARS)
        )
        return "\n".join(lines)[: errand.result_chars]

    return StructuredTool.from_function(coroutine=look_up, name=TOOL_NAME)


def _figures(
    middleware: str, trigger: str, keep: str, errand: Errand, model: BenchModel, log: _Log
) -> ErrandFigures:
    read = len(log.removed & model.read) / len(log.removed) if log.removed else 1.0
    return ErrandFigures(
        middleware=middleware,
        trigger=trigger,
        keep=keep,
        steps=errand.steps,
        result_chars=errand.result_chars,
        compactions=log.compactions,
        summary_calls=len(model.summary_chars),
        summary_chars=sum(model.summary_chars),
        request_chars=mean(model.request_chars),
        read_share=read,
    )
