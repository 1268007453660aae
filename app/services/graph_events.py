"""From what a LangGraph stream yields to the stream events of the HTTP contract (v1)."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Iterator, Sequence
from contextlib import aclosing
from dataclasses import dataclass, field
from typing import Any

from langchain_core.messages import (
    BaseMessage,
    BaseMessageChunk,
    RemoveMessage,
    message_chunk_to_message,
)
from langchain_core.runnables import RunnableConfig
from langgraph.graph.state import CompiledStateGraph

from app.compaction.roles import USER_SUFFIX, is_hidden, is_human

STREAM_MODES = (
    "values",
    "updates",
    "messages",
    "messages-tuple",
    "custom",
    "checkpoints",
    "tasks",
    "debug",
)
# What the contract calls a mode and what LangGraph calls it, where they differ.
_GRAPH_MODES = {"messages-tuple": "messages"}

NamedEvent = tuple[str, Any]


@dataclass(frozen=True, slots=True)
class GraphCall:
    """One call of a graph: its input (None continues), configuration, context and what to stream of it."""

    input: Any
    config: RunnableConfig
    context: Any = None
    stream_modes: Sequence[str] = ("values",)
    subgraphs: bool = False
    interrupt_before: Any = None
    interrupt_after: Any = None
    durability: Any = None


async def graph_events(
    graph: CompiledStateGraph[Any, Any, Any, Any], call: GraphCall
) -> AsyncGenerator[NamedEvent]:
    """Run ``graph`` and yield (event name, data). Names of events from a subgraph carry ``|`` and its namespace."""
    modes: Any = list(dict.fromkeys(_GRAPH_MODES.get(mode, mode) for mode in call.stream_modes))
    assembler = MessageAssembler() if "messages" in call.stream_modes else None
    tuples = "messages-tuple" in call.stream_modes
    stream: Any = graph.astream(
        call.input,
        call.config,
        context=call.context,
        stream_mode=modes,
        subgraphs=True,
        interrupt_before=call.interrupt_before,
        interrupt_after=call.interrupt_after,
        durability=call.durability,
    )
    async with aclosing(stream):
        async for namespace, mode, chunk in stream:
            if namespace and not call.subgraphs:
                continue
            suffix = "".join(f"|{part}" for part in namespace)
            if mode != "messages":
                yield f"{mode}{suffix}", chunk
                continue
            if _is_no_news(chunk[0]):
                continue
            if tuples:
                yield f"messages{suffix}", chunk
            if assembler:
                for name, data in assembler.add(*chunk):
                    yield f"{name}{suffix}", data


def _is_no_news(message: Any) -> bool:
    """Whether nobody said this just now, which front ends would take it for: how a list is emptied, what people are not
    meant to see, and the person's own question under the id that it got (rule H1)."""
    if isinstance(message, RemoveMessage) or is_hidden(message):
        return True
    return is_human(message) and (message.id or "").endswith(USER_SUFFIX)


@dataclass(slots=True)
class MessageAssembler:
    """Mode ``messages``: each message's metadata once, then the message as far as it has come."""

    _messages: dict[str | None, BaseMessage] = field(default_factory=dict)

    def add(self, message: BaseMessage, metadata: Any) -> Iterator[NamedEvent]:
        known = self._messages.get(message.id)
        if known is None:
            yield "messages/metadata", {message.id: {"metadata": metadata}}
        if isinstance(message, BaseMessageChunk):
            whole = known + message if isinstance(known, BaseMessageChunk) else message
            self._messages[message.id] = whole
            yield "messages/partial", [message_chunk_to_message(whole)]
        else:
            self._messages[message.id] = message
            yield "messages/complete", [message]
