"""From the events of a run to the frames of its thread's stream (v2)."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Literal

import orjson

from app.persistence.events import HIDDEN, Event
from app.serialization import dumps
from app.services.thread_events.messages import MessageBlocks
from app.services.thread_events.recorded import CHECKPOINT, LIFECYCLE, Namespace, split_name

# A sequence number holds the run's place in its thread, the event's in its run, and the frame's in its event. Clients
# compute with doubles, so that all of it has to fit into 53 bits.
EVENT_BITS, FRAME_BITS = 20, 5
_LAST_EVENT, _LAST_FRAME = (1 << EVENT_BITS) - 1, (1 << FRAME_BITS) - 1
_AFTER_MESSAGES = 1 << (FRAME_BITS - 1)
INTERRUPT = "__interrupt__"
CUT_OFF = "The run ended before this message did"
_INTERRUPTED_MARK = f'"{INTERRUPT}"'
_ASKED = frozenset({"values", "updates"})

Outcome = Literal["completed", "failed", "interrupted"]
Channels = Callable[[str], bool]


def first_seq(position: int) -> int:
    """A number below that of every frame of the run at this place of its thread."""
    return position << (EVENT_BITS + FRAME_BITS)


def last_seq(position: int, event: int) -> int:
    """A number above that of every frame of the run's first ``event`` events."""
    return first_seq(position) + (min(event, _LAST_EVENT) << FRAME_BITS | _LAST_FRAME)


def position_of(seq: int) -> int:
    """The place of the run that a frame with this number belongs to."""
    return seq >> (EVENT_BITS + FRAME_BITS)


@dataclass(frozen=True, slots=True)
class Frame:
    """One event of a thread stream. ``data`` is JSON; ``name`` the name of a custom event."""

    seq: int
    event_id: str
    method: str
    namespace: Namespace
    data: bytes
    timestamp_ms: int
    node: str | None = None
    name: str | None = None

    @property
    def channel(self) -> str:
        """The channel that a client has to ask for."""
        return "input" if self.method.startswith("input.") else self.method

    def json(self) -> bytes:
        params = {
            "namespace": self.namespace,
            "timestamp": self.timestamp_ms,
            "data": orjson.Fragment(self.data),
        }
        if self.node:
            params["node"] = self.node
        return orjson.dumps(
            {
                "type": "event",
                "event_id": self.event_id,
                "seq": self.seq,
                "method": self.method,
                "params": params,
            }
        )


@dataclass(frozen=True, slots=True)
class StreamedRun:
    """A run as thread streams see it: its place in the thread, the graph, and which interrupts it answers."""

    run_id: str
    position: int
    graph_name: str
    answers: Sequence[str] = ()


@dataclass(frozen=True, slots=True)
class Ended:
    """How a run ended. ``waiting``: the interrupts that its thread waits for."""

    outcome: Outcome
    error: str | None = None
    waiting: Sequence[Mapping[str, Any]] = ()


@dataclass(slots=True)
class RunFrames:
    """Takes the events of one run in order, from the first on. ``wanted`` says of a channel whether anybody would see
    its frames: others are not made, and the numbers of the rest stay the same."""

    run: StreamedRun
    wanted: Channels
    _seq: int = 0
    _slot: int = 0
    _at_ms: int = 0
    _asked: dict[str, Any] = field(default_factory=dict)
    _interrupted: bool = False
    _told_of_interrupts: bool = False
    _messages: dict[Namespace, MessageBlocks] = field(default_factory=dict)
    _subgraphs: dict[Namespace, None] = field(default_factory=dict)

    def frames(self, event: Event) -> Iterator[Frame]:
        """The frames of an event that is not the run's end."""
        self._begin(event.seq, event.at)
        name, namespace = split_name(event.event.removeprefix(HIDDEN))
        match name:
            case "metadata":
                yield from self._begun(event.data)
            case "values":
                yield from self._values(namespace, event.data)
            case "updates":
                yield from self._updates(namespace, event.data)
            case "messages" if self.wanted("messages"):
                yield from self._message(namespace, event.data)
            case "custom" if self.wanted("custom"):
                yield self._custom(namespace, event.data)
            case "tools" if event.hidden and self.wanted("tools"):
                yield self._frame("tools", namespace, event.data.encode())
            case _ if name == CHECKPOINT and event.hidden and self.wanted("checkpoints"):
                yield self._frame("checkpoints", namespace, event.data.encode())
            case _ if name == LIFECYCLE and event.hidden:
                yield self._subgraph(namespace, event.data)

    def end(self, ended: Ended, event: Event | None = None) -> Iterator[Frame]:
        """The frames at the end of the run. Without ``event`` the run is gone, taken back or deleted."""
        self._begin(event.seq if event else self._seq + 1, event.at if event else None)
        waits = self._interrupted or (not self._told_of_interrupts and bool(ended.waiting))
        outcome: Outcome = "interrupted" if ended.outcome == "completed" and waits else ended.outcome
        yield from self._close_messages(None if outcome == "completed" else ended.error or CUT_OFF)
        # Who did not ask for messages has nothing to close, and knows what follows by the same numbers.
        self._slot = _AFTER_MESSAGES
        if not self._told_of_interrupts and outcome == "interrupted":
            yield from self._requests((), ended.waiting)
        for namespace in self._subgraphs:
            yield self._lifecycle(namespace, outcome)
        yield self._lifecycle((), outcome, self.run.graph_name, ended.error if outcome == "failed" else None)

    def _begin(self, seq: int, at: datetime | None) -> None:
        self._seq, self._slot = seq, 0
        if at:
            self._at_ms = int(at.timestamp() * 1000)

    def _begun(self, data: str) -> Iterator[Frame]:
        if orjson.loads(data).get("attempt", 1) > 1:
            # Another worker goes on from the last checkpoint; what the one before it was just saying is said again.
            yield from self._close_messages(CUT_OFF)
            return
        yield self._lifecycle((), "running", self.run.graph_name)
        if self.run.answers:
            yield self._frame("input.answered", (), dumps({"interrupt_ids": list(self.run.answers)}))

    def _values(self, namespace: Namespace, data: str) -> Iterator[Frame]:
        asked: Sequence[Mapping[str, Any]] = ()
        self._told_of_interrupts = True
        raw = data.encode()
        if _INTERRUPTED_MARK in data:
            values = orjson.loads(data)
            if isinstance(values, dict) and INTERRUPT in values:
                asked = values.pop(INTERRUPT) or ()
                self._interrupted = True
                raw = dumps(values)
        if raw != b"{}" or not asked:
            yield self._frame("values", namespace, raw)
        yield from self._requests(namespace, asked)

    def _updates(self, namespace: Namespace, data: str) -> Iterator[Frame]:
        self._told_of_interrupts = True
        if not self.wanted("updates") and _INTERRUPTED_MARK not in data:
            return
        for node, update in orjson.loads(data).items():
            if node == INTERRUPT:
                self._interrupted = True
                yield from self._requests(namespace, update or ())
            else:
                yield self._frame("updates", namespace, dumps({"node": node, "values": update}), node=node)

    def _requests(self, namespace: Namespace, asked: Iterable[Mapping[str, Any]]) -> Iterator[Frame]:
        for interrupt in asked:
            if (interrupt_id := interrupt.get("id")) and interrupt_id not in self._asked:
                self._asked[interrupt_id] = interrupt
                # The JavaScript client reads one name of the value, the Python client the other.
                value = interrupt.get("value")
                request = {"interrupt_id": interrupt_id, "payload": value, "value": value}
                yield self._frame("input.requested", namespace, dumps(request))

    def _message(self, namespace: Namespace, data: str) -> Iterator[Frame]:
        message, metadata = orjson.loads(data)
        blocks = self._messages.setdefault(namespace, MessageBlocks())
        node = metadata.get("langgraph_node")
        for item in blocks.add(message):
            yield self._frame("messages", namespace, dumps(item), node=node)

    def _close_messages(self, error: str | None) -> Iterator[Frame]:
        for namespace, blocks in self._messages.items():
            for item in blocks.close(error):
                yield self._frame("messages", namespace, dumps(item))

    def _custom(self, namespace: Namespace, data: str) -> Frame:
        payload = orjson.loads(data)
        kind = payload.get("type") if isinstance(payload, dict) else None
        named = {"name": kind} if isinstance(kind, str) else {}
        name = named.get("name")
        return self._frame("custom", namespace, dumps({**named, "payload": payload}), name=name)

    def _subgraph(self, namespace: Namespace, data: str) -> Frame:
        if orjson.loads(data)["event"] == "started":
            self._subgraphs[namespace] = None
        else:
            self._subgraphs.pop(namespace, None)
        return self._frame("lifecycle", namespace, data.encode())

    def _lifecycle(
        self, namespace: Namespace, event: str, graph_name: str | None = None, error: str | None = None
    ) -> Frame:
        given = {"event": event, "graph_name": graph_name, "error": error}
        change = {name: value for name, value in given.items() if value is not None}
        # By this form of the id, clients know which run the root's lifecycle is of.
        prefix = "" if namespace else "synth:"
        return self._frame("lifecycle", namespace, dumps(change), prefix=prefix)

    def _frame(
        self,
        method: str,
        namespace: Namespace,
        data: bytes,
        *,
        node: str | None = None,
        name: str | None = None,
        prefix: str = "",
    ) -> Frame:
        place = min(self._seq, _LAST_EVENT) << FRAME_BITS | min(self._slot, _LAST_FRAME)
        event_id = f"{prefix}{self.run.run_id}:{self._seq}.{self._slot}.{method}"
        self._slot += 1
        seq = first_seq(self.run.position) + place
        return Frame(seq, event_id, method, namespace, data, self._at_ms, node, name)
