"""What the inside needs from outside, as small Protocols. Adapters implement them; ``app/main.py`` plugs them in."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass
from typing import Any, Literal, Protocol

from langchain_core.language_models import BaseChatModel
from langchain_core.messages import BaseMessage, SystemMessage
from langgraph.graph.state import CompiledStateGraph

from app.compaction.types import Compaction, CompactionKind, Context, ContextSize, Skipped

MODEL_KEY = "configured_model"
"""Where the metadata of each call of a configured model has that model's name."""


class ModelDescription(Protocol):
    """A model as people may see it: no key, no address. ``reason`` says why it is not ``available``."""

    @property
    def name(self) -> str: ...

    @property
    def display_name(self) -> str: ...

    @property
    def context_window(self) -> int | None: ...

    @property
    def available(self) -> bool: ...

    @property
    def reason(self) -> str | None: ...

    @property
    def description(self) -> str | None: ...

    @property
    def model(self) -> str | None: ...

    @property
    def supports(self) -> Mapping[str, bool]: ...


class ChatModels(Protocol):
    """The configured chat models by name."""

    @property
    def default(self) -> str:
        """Name of the first usable model (the demo model when none is)."""
        ...

    @property
    def names(self) -> tuple[str, ...]: ...

    def describe(self) -> Sequence[ModelDescription]:
        """All listed models, in order of the configuration."""
        ...

    def get(self, name: str) -> BaseChatModel:
        """The model that answers. Raises InvalidInput for an unknown name, ModelUnavailable when it cannot be used."""
        ...

    def for_summary(self, name: str) -> BaseChatModel:
        """The same model without retries of its own (rule E3)."""
        ...

    def window(self, name: str) -> int | None:
        """The declared context window in tokens, or None."""
        ...

    def max_tokens(self, name: str) -> int:
        """Tokens that the model's ``max_tokens`` reserves for the reply; 0 when it declares none."""
        ...


AgentKind = Literal["lead", "subagent"]
"""A person talks to a lead agent; a subagent works on what a lead agent gives it."""


@dataclass(frozen=True, slots=True)
class Activation:
    """A skill that a person activated: the position of the message that did it, what the model is shown before that
    message, and what the thread keeps (an entry of the channel ``skill_context``)."""

    index: int
    text: str
    reference: Mapping[str, Any]


class ActiveSkills(Protocol):
    """The skills of an agent, as far as requests hold their text."""

    def activated(self, messages: Sequence[BaseMessage]) -> Activation | None:
        """What the person's newest message activates, until its turn is over."""
        ...


@dataclass(frozen=True, slots=True)
class AgentSpec:
    """What every request of an agent holds besides the conversation. ``model`` is the configured one, or None; ``mcp``
    names the MCP servers whose tools are among ``tools`` as soon as they are known. ``hosted``: somebody else wrote it,
    and it may have models of its own; ``system`` and ``tools`` are what its last request showed."""

    name: str
    model: str | None = None
    system: SystemMessage | None = None
    tools: Sequence[Any] = ()
    description: str = ""
    kind: AgentKind = "lead"
    mcp: Sequence[str] = ()
    skills: ActiveSkills | None = None
    hosted: bool = False


class Graphs(Protocol):
    """The hosted graphs (agents of the config and graphs of the user) by name, bound to the database."""

    @property
    def names(self) -> tuple[str, ...]: ...

    @property
    def default(self) -> str: ...

    def resolve(self, assistant_id: str) -> str:
        """Graph name of an assistant id (name, alias or uuid). Raises InvalidInput (name) or NotFound (uuid)."""
        ...

    def spec(self, name: str | None) -> AgentSpec:
        """What the graph's requests hold besides the conversation (rule B1). None or unknown: the default graph."""
        ...

    def for_state(self, name: str | None) -> CompiledStateGraph[Any, Any, Any, Any]:
        """The graph for reading and writing state, with its own checkpointer. None or unknown: the default graph."""
        ...

    def writer(self, name: str | None) -> CompiledStateGraph[Any, Any, Any, Any]:
        """The one-node state writer with the graph's channels; its writes (``WRITER_NODE``) leave the thread idle."""
        ...

    def open_run(
        self, name: str, model_name: str, config: Mapping[str, Any]
    ) -> AbstractAsyncContextManager[CompiledStateGraph[Any, Any, Any, Any]]:
        """The graph that executes a run with the named model, with a checkpointer of its own, and what it holds open
        meanwhile. ``config`` is the run's. Inside, the graph has the service's compactor at hand."""
        ...

    def check_compactable(self, name: str | None, values: Mapping[str, Any]) -> None:
        """Raises Conflict when the state of such a graph cannot be compacted, since it holds no messages."""
        ...

    def write_of(self, name: str | None, update: Mapping[str, Any]) -> dict[str, Any]:
        """What the state writer of the graph writes for ``update``, the channels of a state with other messages and
        another summary: not every graph has a channel for that."""
        ...


@dataclass(frozen=True, slots=True)
class CompactionJob:
    """One request to compact a thread. ``model_name`` is the model the run executes with (rule E1); ``keep``
    replaces the configured one for this job; ``emit`` takes the progress events (rule F4), hooks get ``runtime``.

    ``checkpoint_ns`` is empty for the thread's own conversation; a subagent's stands in a namespace of its own.
    ``previous_id`` is the compaction whose marker stands in the state."""

    thread_id: str
    run_id: str | None
    agent_name: str
    model_name: str
    context: Context
    kind: CompactionKind
    force: bool = False
    keep: ContextSize | None = None
    instructions: str | None = None
    emit: Callable[[Mapping[str, Any]], None] | None = None
    runtime: Any = None
    agent_kind: AgentKind = "lead"
    checkpoint_ns: str = ""
    previous_id: str | None = None


@dataclass(frozen=True, slots=True)
class Prepared:
    """A compaction with its removed messages archived and its record ``committing``: the state write is next."""

    compaction_id: str
    compaction: Compaction


@dataclass(frozen=True, slots=True)
class SummarizationEvent:
    """What ``before_summarization`` hooks get, after a summary exists and before anything is removed (rule F3).

    The removed messages are archived under ``compaction_id`` once the hooks are done; ``model_name`` is the run's.
    In a subagent's conversation nobody but the lead agent spoke: what is about the person skips the kind ``subagent``.
    """

    thread_id: str
    agent_name: str
    removed: tuple[BaseMessage, ...]
    kept: tuple[BaseMessage, ...]
    runtime: Any = None
    agent_kind: AgentKind = "lead"
    compaction_id: str = ""
    model_name: str = ""


SummarizationHook = Callable[[SummarizationEvent], Awaitable[None]]


class Compactor(Protocol):
    """Compacts a thread up to the state write, which the caller does."""

    def window(self, model_name: str) -> int | None:
        """What fractions are of: the smaller window of the summarising and the running model (rule A4)."""
        ...

    def reserved(self, model_name: str) -> int:
        """Tokens that the running model reserves for its reply."""
        ...

    def is_overflow(self, error: BaseException) -> bool:
        """A provider's error says that the request does not fit the context window."""
        ...

    async def automatic(self, job: CompactionJob) -> Prepared | None:
        """The path of the hook: None when nothing is due, when it is not enabled, and after any failure (rule E5)."""
        ...

    async def recover(self, job: CompactionJob) -> Prepared | None:
        """After an overflow: compact whatever the trigger says (rule E7). None when nothing can be made smaller, and
        when compaction is not enabled."""
        ...

    async def manual(self, job: CompactionJob) -> Prepared | Skipped:
        """A person's request. Raises SummaryGenerationError or SummaryTimeout; a skip is a value."""
        ...

    async def describe(self, job: CompactionJob) -> str:
        """What fills the window, part by part, in words; pinned messages are a part."""
        ...

    def completed(self, job: CompactionJob, prepared: Prepared) -> None:
        """Tell the clients of the run that the recovered request was answered; the state write is certain now."""
        ...

    async def abandon(self, job: CompactionJob, prepared: Prepared, error: str) -> None:
        """The state write did not happen, and why (a sentence)."""
        ...


class Workspaces(Protocol):
    """The file folders of threads."""

    async def delete(self, thread_id: str) -> None: ...

    async def copy(self, thread_id: str, copy_id: str) -> None: ...

    async def size(self, thread_id: str) -> int: ...


WRITER_NODE = "compact"

SEARCH_HISTORY, READ_HISTORY = HISTORY_TOOLS = ("search_history", "read_history")
"""The tools by which an agent looks up what is no longer in its context."""


@dataclass(frozen=True, slots=True)
class Past:
    """A message that left the context: ``text`` is all of it, or the part that shows why it was found."""

    reference: str
    speaker: str
    text: str


@dataclass(frozen=True, slots=True)
class PastFound:
    """What a search found, best first. ``complete`` is false while messages wait to be indexed."""

    messages: tuple[Past, ...]
    complete: bool = True


class PastMessages(Protocol):
    """The messages that compactions removed from a thread. ``state`` is the thread's: it says which branch is meant,
    and what it holds is not past."""

    async def search(self, thread_id: str, state: Mapping[str, Any], query: str, limit: int) -> PastFound:
        """Raises InvalidInput for a query without a word in it, or a very long one."""
        ...

    async def read(self, thread_id: str, state: Mapping[str, Any], reference: str) -> Past:
        """The message of this reference or id. Raises NotFound, and InvalidInput when it means several."""
        ...
