"""From what a LangGraph stream yields to the stream events of the HTTP contract (v1)."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Iterator, Sequence
from contextlib import aclosing
from dataclasses import dataclass, field
from typing import Any, Literal, get_args

from langchain_core.messages import (
    BaseMessage,
    BaseMessageChunk,
    RemoveMessage,
    message_chunk_to_message,
)
from langchain_core.runnables import RunnableConfig
from langgraph.graph.state import CompiledStateGraph

from app.compaction.roles import USER_SUFFIX, is_hidden, is_human
from app.services.thread_events.recorded import (
    RECORDED_MODES,
    NamedEvent,
    Part,
    ThreadRecorder,
    event_name,
)
from app.services.thread_events.tools import ToolEvents

StreamMode = Literal[
    "values",
    "updates",
    "messages",
    "messages-tuple",
    "custom",
    "checkpoints",
    "tasks",
    "debug",
    "events",
    "tools",
]
STREAM_MODES: tuple[StreamMode, ...] = get_args(StreamMode)
# What the contract calls a mode and what LangGraph calls it, where they differ.
_GRAPH_MODES = {"messages-tuple": "messages"}
_EVENTS = "events"
# LangChain's mark of what is no business of whoever watches.
_HIDDEN_TAG = "langsmith:hidden"


@dataclass(frozen=True, slots=True)
class GraphCall:
    """One call of a graph: its input (None continues), configuration, context and what to stream of it.
    ``recorded``: also what the streams of the thread show."""

    input: Any
    config: RunnableConfig
    context: Any = None
    stream_modes: Sequence[str] = ("values",)
    subgraphs: bool = False
    interrupt_before: Any = None
    interrupt_after: Any = None
    durability: Any = None
    recorded: bool = False


async def graph_events(
    graph: CompiledStateGraph[Any, Any, Any, Any], call: GraphCall
) -> AsyncGenerator[NamedEvent]:
    """Run ``graph`` and yield (event name, data). Names of events from a subgraph carry ``|`` and its namespace."""
    shown = _Shown(call)
    recorder = ThreadRecorder() if call.recorded else None
    modes = list(dict.fromkeys([*shown.modes, *(RECORDED_MODES if recorder else ())]))
    async with aclosing(_parts(graph, call, modes)) as stream:
        async for part in stream:
            if part[1] == "messages" and _is_no_news(part[2][0]):
                continue
            if recorder is None:
                for event in shown.events(part):
                    yield event
                continue
            for ordered in recorder.in_order(part):
                for event in _both(shown, recorder, ordered):
                    yield event
    for left in recorder.rest() if recorder else ():
        for event in _both(shown, recorder, left):
            yield event


async def _parts(
    graph: CompiledStateGraph[Any, Any, Any, Any], call: GraphCall, modes: Sequence[str]
) -> AsyncGenerator[Part]:
    """What LangGraph streams in these modes. ``events`` are LangChain's (``astream_events``, v2), which hold the
    others: what is streamed is an event of the outermost runnable."""
    own: Any = [mode for mode in modes if mode != _EVENTS]
    options: dict[str, Any] = {
        "context": call.context,
        "stream_mode": own or ["values"],
        "subgraphs": True,
        "interrupt_before": call.interrupt_before,
        "interrupt_after": call.interrupt_after,
        "durability": call.durability,
    }
    if _EVENTS not in modes:
        async with aclosing(graph.astream(call.input, call.config, **options)) as stream:  # type: ignore[type-var]
            async for part in stream:
                yield part
        return
    events: Any = graph.astream_events(call.input, call.config, version="v2", **options)
    async with aclosing(events):
        async for event in events:
            if event["event"] == "on_chain_stream" and not event["parent_ids"]:
                if own:
                    yield event["data"]["chunk"]
            elif _HIDDEN_TAG not in event.get("tags", ()):
                yield (), _EVENTS, event


def _both(shown: _Shown, recorder: ThreadRecorder | None, part: Part) -> Iterator[NamedEvent]:
    yield from shown.events(part)
    if recorder:
        yield from recorder.events(part, shown=shown.has(part))


class _Shown:
    """What the run's own stream shows, in the modes that were asked for."""

    def __init__(self, call: GraphCall) -> None:
        self.modes = frozenset(_GRAPH_MODES.get(mode, mode) for mode in call.stream_modes)
        self._subgraphs = call.subgraphs
        self._tuples = "messages-tuple" in call.stream_modes
        self._assembler = MessageAssembler() if "messages" in call.stream_modes else None
        self._tools = ToolEvents()

    def has(self, part: Part) -> bool:
        """Whether the part is shown just as it is."""
        namespace, mode, _ = part
        if namespace and not self._subgraphs:
            return False
        return self._tuples if mode == "messages" else mode in self.modes

    def events(self, part: Part) -> Iterator[NamedEvent]:
        namespace, mode, data = part
        if self.has(part):
            yield event_name(mode, namespace), self._tools.shown(data) if mode == "tools" else data
        if mode == "messages" and self._assembler and (not namespace or self._subgraphs):
            for name, message in self._assembler.add(*data):
                yield event_name(name, namespace), message


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
