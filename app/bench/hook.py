"""What the hook before each model call costs while nothing fires, ours beside LangChain's."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from statistics import median
from typing import Any, Literal

from langchain.agents.middleware import SummarizationMiddleware as LangChainMiddleware
from langchain_core.messages import BaseMessage, SystemMessage
from langgraph.runtime import Runtime
from psycopg_pool import AsyncConnectionPool

from app.agent.middleware.summarization import SummarizationMiddleware
from app.agent.tools import file_tools
from app.bench.histories import Conversation, Stored
from app.bench.models import MODEL_NAME, BenchModel, OneModel
from app.bench.rig import build_compactor, no_workspaces
from app.bench.timing import Contest, Effort, cpu_ms, no_collection
from app.config import SummarizationSettings
from app.config.agents import DEFAULT_AGENT
from app.ports import AgentSpec

Case = Literal["first", "growing", "reread"]

_NEVER = 10**9
_KEEP = 10
_NEW_MESSAGES = 2
_READINGS = 3


@dataclass(frozen=True, slots=True)
class HookFigures:
    """One call of the hook on a thread of so many ``messages``, in ms of processor time.

    ``first``: nobody has seen the thread yet. ``growing``: the next step of a run, two messages later.
    ``reread``: a new run, with the thread read again from its checkpoint. ``reading_ms`` is what making the messages
    from the form of a checkpoint takes by itself.
    """

    messages: int
    case: Case
    threadkeep_ms: float
    langchain_ms: float
    ratio: float
    reading_ms: float
    rounds: int


class _OurHook:
    """The middleware as an agent has it. Its database is never opened: nothing fires."""

    def __init__(self) -> None:
        settings = SummarizationSettings.model_validate(
            {"trigger": {"type": "tokens", "value": _NEVER}, "keep": {"type": "messages", "value": _KEEP}}
        )
        unopened: AsyncConnectionPool[Any] = AsyncConnectionPool("", open=False)
        agent = AgentSpec(
            name=DEFAULT_AGENT.name,
            system=SystemMessage(DEFAULT_AGENT.system_prompt),
            tools=tuple(file_tools(no_workspaces())),
        )
        compactor = build_compactor(settings, OneModel(BenchModel()), unopened)
        self._middleware = SummarizationMiddleware(compactor, agent, MODEL_NAME)
        self._runtime: Runtime[Any] = Runtime()

    async def __call__(self, messages: Sequence[BaseMessage]) -> None:
        state: Any = {"messages": messages}
        _expect_nothing(await self._middleware.abefore_model(state, self._runtime))


class _TheirHook:
    def __init__(self) -> None:
        self._middleware: LangChainMiddleware[Any, Any] = LangChainMiddleware(
            BenchModel(), trigger=("tokens", _NEVER), keep=("messages", _KEEP)
        )
        self._runtime: Runtime[Any] = Runtime()

    async def __call__(self, messages: Sequence[BaseMessage]) -> None:
        state: Any = {"messages": messages}
        _expect_nothing(await self._middleware.abefore_model(state, self._runtime))


async def measure_hook(size: int, effort: Effort) -> list[HookFigures]:
    """All three cases on a thread of ``size`` messages."""
    conversation = Conversation()
    messages = conversation.take(size)
    ours, theirs = _OurHook(), _TheirHook()
    # Not measured: what only the very first call in a process costs, such as importing.
    await ours(messages)
    await theirs(messages)
    stored = Stored(messages)
    contests: dict[Case, Contest[Any]] = {
        "first": Contest(lambda: (_OurHook(), stored.read()), _called, lambda given: theirs(given[1])),
        "growing": Contest(_growing(messages, conversation).__next__, ours, theirs),
        "reread": Contest(lambda: stored.read() + conversation.take(1), ours, theirs),
    }
    reading_ms = await _reading_ms(stored)
    results = {case: await contest.held(effort) for case, contest in contests.items()}
    return [
        HookFigures(size, case, result.ours_ms, result.theirs_ms, result.ratio, reading_ms, result.rounds)
        for case, result in results.items()
    ]


async def _reading_ms(stored: Stored) -> float:
    async def read(_: object) -> None:
        stored.read()

    with no_collection():
        return median([await cpu_ms(read, None) for _ in range(_READINGS)])


async def _called(given: tuple[_OurHook, list[BaseMessage]]) -> None:
    hook, messages = given
    await hook(messages)


def _growing(messages: list[BaseMessage], conversation: Conversation) -> Iterator[list[BaseMessage]]:
    """The thread step by step: each time a new list of the same messages and some new ones, as a graph hands it on."""
    while True:
        messages = [*messages, *conversation.take(_NEW_MESSAGES)]
        yield messages


def _expect_nothing(update: object) -> None:
    if update is not None:
        raise RuntimeError(
            "a hook that was to do nothing changed the state; its time would mean something else"
        )
