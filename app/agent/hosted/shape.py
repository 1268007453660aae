"""How the service writes the state of a user's graph: what holds its messages, and where its summary can stand."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, NotRequired, TypedDict

from langchain_core.messages import BaseMessage
from langgraph.channels.binop import BinaryOperatorAggregate
from langgraph.channels.delta import DeltaChannel
from langgraph.channels.last_value import LastValue
from langgraph.types import Overwrite

from app.agent.hosted.sources import Graph
from app.agent.state import CompactionMarker
from app.agent.summary_message import with_summary_message
from app.agent.writer import state_writer
from app.errors import Conflict

_REDUCED = (BinaryOperatorAggregate, DeltaChannel)


class WriterState(TypedDict):
    """What the service writes into threads beside the graph's own channels."""

    summary_text: NotRequired[str | None]
    compaction: NotRequired[CompactionMarker | None]


@dataclass(frozen=True, slots=True)
class StateShape:
    """The state of one graph. ``shows_summary``: it has the channel of the summary, so its model is shown it; else the
    summary has to stand among the messages."""

    name: str
    writer: Graph
    messages: Any
    shows_summary: bool

    def check_compactable(self, values: Mapping[str, Any]) -> None:
        """Raises Conflict when there are no messages that a compaction could replace."""
        if not isinstance(self.messages, LastValue | BinaryOperatorAggregate | DeltaChannel):
            raise _refusal(self.name, "its state has no `messages`")
        messages = values.get("messages") or []
        if not isinstance(messages, list) or not all(isinstance(item, BaseMessage) for item in messages):
            raise _refusal(self.name, "its `messages` are no list of LangChain messages")

    def write_of(self, update: Mapping[str, Any]) -> dict[str, Any]:
        """What the writer writes so that the state holds the messages and the summary of ``update``."""
        if update["summary_text"] is not None and not self.shows_summary:
            update = {**with_summary_message(update), "summary_text": None}
        return {**update, "messages": self.replacing(update["messages"][1:])}

    def replacing(self, messages: list[BaseMessage]) -> Any:
        """The write after which the channel holds just these. Past the graph's own reducer, which need not know how to
        remove a message."""
        return Overwrite(messages) if isinstance(self.messages, _REDUCED) else messages


def shape_of(name: str, graph: Graph) -> StateShape:
    channels = graph.builder.channels
    return StateShape(
        name,
        state_writer(WriterState, channels),
        channels.get("messages"),
        shows_summary="summary_text" in channels,
    )


def _refusal(name: str, why: str) -> Conflict:
    return Conflict(f"A thread of the graph {name!r} cannot be compacted: {why}", code="not_compactable")
