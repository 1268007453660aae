"""How the service writes the state of a user's graph: what holds its messages, and where its summary can stand."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, NotRequired, TypedDict

from langchain_core.messages import BaseMessage
from langgraph.channels.binop import BinaryOperatorAggregate
from langgraph.channels.delta import DeltaChannel
from langgraph.types import Overwrite

from app.agent.hosted.sources import Graph
from app.agent.state import CompactionMarker
from app.agent.summary_message import with_summary_message
from app.agent.writer import state_writer
from app.errors import Conflict


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
        if why := self.obstacle(values):
            raise Conflict(
                f"A thread of the graph {self.name!r} cannot be compacted: {why}", code="not_compactable"
            )

    def obstacle(self, values: Mapping[str, Any]) -> str | None:
        """Why the messages of such a state cannot be written, None when they can."""
        if self.messages is None:
            return "its state has no `messages`"
        if not isinstance(self.messages, BinaryOperatorAggregate | DeltaChannel):
            # The next input would take the place of the summary, too.
            return "its `messages` have no reducer, so that each write replaces all of them"
        messages = values.get("messages") or []
        if not isinstance(messages, list) or not all(isinstance(item, BaseMessage) for item in messages):
            return "its `messages` are no list of LangChain messages"
        return None

    def write_of(self, update: Mapping[str, Any]) -> dict[str, Any]:
        """What the writer writes so that the state holds the messages and the summary of ``update``."""
        if update["summary_text"] is not None and not self.shows_summary:
            update = {**with_summary_message(update), "summary_text": None}
        # Past the graph's own reducer, which need not know how to remove a message.
        return {**update, "messages": Overwrite(update["messages"][1:])}


def shape_of(name: str, graph: Graph) -> StateShape:
    channels = graph.builder.channels
    return StateShape(
        name,
        state_writer(WriterState, channels),
        channels.get("messages"),
        shows_summary="summary_text" in channels,
    )
