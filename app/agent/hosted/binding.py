"""What a run lends to the graph of a user: the compactor of the service, and what is known of the graph's requests.

A graph is usually made when its module is imported, before there is a service. So its parts look for the binding when
they are called. Outside of a run there is none, and they do nothing.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Any

from langchain_core.messages import SystemMessage

from app.ports import AgentSpec, Compactor


class SeenRequests:
    """What the last request of a graph held beside the conversation: it counts towards the context window (rule B1),
    and nobody but the graph knows it before."""

    def __init__(self, name: str) -> None:
        self.agent = AgentSpec(name, hosted=True)

    def note(self, system: SystemMessage | None, tools: Sequence[Any]) -> None:
        self.agent = AgentSpec(self.agent.name, system=system, tools=tuple(tools), hosted=True)


@dataclass(frozen=True, slots=True)
class Binding:
    """``model_name`` is the model of the run, an entry of ``models:``."""

    compactor: Compactor
    model_name: str
    requests: SeenRequests


_BINDING: ContextVar[Binding | None] = ContextVar("threadkeep_binding", default=None)


def current() -> Binding | None:
    """The binding of the run that this is called in."""
    return _BINDING.get()


@contextmanager
def bound(binding: Binding) -> Iterator[None]:
    """Everything that runs inside has this binding, tasks that begin inside too."""
    token = _BINDING.set(binding)
    try:
        yield
    finally:
        _BINDING.reset(token)
