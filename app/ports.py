"""What the inside needs from outside, as small Protocols. Adapters implement them; ``app/main.py`` plugs them in."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Protocol

from langchain_core.language_models import BaseChatModel
from langgraph.graph.state import CompiledStateGraph


class ChatModels(Protocol):
    """The configured chat models by name."""

    @property
    def default(self) -> str:
        """Name of the first usable model (the demo model when none is)."""
        ...

    @property
    def names(self) -> tuple[str, ...]: ...

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


class Graphs(Protocol):
    """The hosted graphs (agents of the config and graphs of the user) by name, bound to the database."""

    @property
    def names(self) -> tuple[str, ...]: ...

    @property
    def default(self) -> str: ...

    def resolve(self, assistant_id: str) -> str:
        """Graph name of an assistant id (name, alias or uuid). Raises InvalidInput (name) or NotFound (uuid)."""
        ...

    def for_state(self, name: str | None) -> CompiledStateGraph[Any, Any, Any, Any]:
        """The graph for reading and writing state, with a checkpointer of its own. None or an unknown name: the default graph."""
        ...

    def writer(self, name: str | None) -> CompiledStateGraph[Any, Any, Any, Any]:
        """The one-node state writer sharing the graph's channels; writing ``as_node=WRITER_NODE`` leaves the thread idle."""
        ...

    def for_run(self, name: str, model_name: str) -> CompiledStateGraph[Any, Any, Any, Any]:
        """The graph that executes a run with the named model, with a checkpointer of its own."""
        ...


class Workspaces(Protocol):
    """The file folders of threads."""

    async def delete(self, thread_id: str) -> None: ...


JsonObject = Mapping[str, Any]
WRITER_NODE = "compact"
