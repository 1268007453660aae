"""What a run records for the streams of its thread (v2), beside the events that its own stream (v1) shows.

LangGraph tells far more of a step than a stream needs: a checkpoint with all values, a task with its whole input. Kept
is what thread streams show of it, under names that the run's own stream passes over.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from app.persistence.events import HIDDEN

RECORDED_MODES = ("values", "updates", "messages", "custom", "checkpoints", "tasks", "tools")
CHECKPOINT, LIFECYCLE = "checkpoint", "lifecycle"
_AS_THEY_ARE = frozenset({"values", "updates", "custom"})

Namespace = tuple[str, ...]
Part = tuple[Namespace, str, Any]
NamedEvent = tuple[str, Any]


def event_name(name: str, namespace: Namespace) -> str:
    """The name of a run's event: that of a subgraph carries ``|`` and each part of its namespace."""
    return "|".join((name, *namespace))


def split_name(name: str) -> tuple[str, Namespace]:
    """The opposite of ``event_name``."""
    base, *namespace = name.split("|")
    return base, tuple(namespace)


@dataclass(slots=True)
class ThreadRecorder:
    """Takes what LangGraph streams, part by part."""

    _held: dict[Namespace, Part] = field(default_factory=dict)
    _subgraphs: SubgraphLifecycle = field(default_factory=lambda: SubgraphLifecycle())

    def in_order(self, part: Part) -> Iterator[Part]:
        """The checkpoint of a step before its values, as clients of thread streams expect them: LangGraph tells of the
        checkpoint right after."""
        namespace, mode, _ = part
        held = self._held.pop(namespace, None)
        if mode == "values":
            self._held[namespace] = part
        if mode == "checkpoints":
            yield part
        if held:
            yield held
        if mode not in ("values", "checkpoints"):
            yield part

    def rest(self) -> Iterator[Part]:
        """What is held back when the stream is over."""
        yield from self._held.values()

    def events(self, part: Part, *, shown: bool) -> Iterator[NamedEvent]:
        """The events to keep. ``shown``: the run's own stream has the part as it is."""
        namespace, mode, data = part
        match mode:
            case "checkpoints":
                yield event_name(f"{HIDDEN}{CHECKPOINT}", namespace), _checkpoint(data)
            case "tasks":
                for where, change in self._subgraphs.changes(namespace, data):
                    yield event_name(f"{HIDDEN}{LIFECYCLE}", where), change
                    if call := self._subgraphs.began(where, change):
                        yield event_name(f"{HIDDEN}tools", where), call
            case "tools":
                for where in self._subgraphs.ends_of(data):
                    yield event_name(f"{HIDDEN}tools", where), data
                yield event_name(f"{HIDDEN}tools", namespace), data
            case "messages" if not shown:
                message, metadata = data
                kept = {"langgraph_node": metadata.get("langgraph_node")}
                yield event_name(f"{HIDDEN}messages", namespace), [message, kept]
            case _ if mode in _AS_THEY_ARE and not shown:
                yield event_name(f"{HIDDEN}{mode}", namespace), data


def _checkpoint(data: Mapping[str, Any]) -> dict[str, Any]:
    kept = {"id": _checkpoint_id(data["config"]), **_place(data.get("metadata") or {})}
    parent = _checkpoint_id(data.get("parent_config"))
    return {**kept, "parent_id": parent} if parent else kept


def _place(metadata: Mapping[str, Any]) -> dict[str, Any]:
    return {"step": metadata.get("step", 0), "source": metadata.get("source", "loop")}


def _checkpoint_id(config: Mapping[str, Any] | None) -> str | None:
    found = ((config or {}).get("configurable") or {}).get("checkpoint_id")
    return str(found) if found else None


@dataclass(slots=True)
class SubgraphLifecycle:
    """Beginnings and ends of subgraphs, as the tasks tell of them: the first task in a namespace begins it; it ends
    with the task that its last part names.

    A tool that has a graph work shows in the graph's namespace as well: that is how clients learn which call a subagent
    works for.
    """

    _open: dict[Namespace, str] = field(default_factory=dict)
    _seen: set[Namespace] = field(default_factory=set)
    _calls: dict[str, Mapping[str, Any]] = field(default_factory=dict)
    _working: dict[str, list[Namespace]] = field(default_factory=dict)

    def changes(
        self, namespace: Namespace, task: Mapping[str, Any]
    ) -> Iterator[tuple[Namespace, dict[str, Any]]]:
        if "result" in task:
            yield from self._ended(namespace, task)
        else:
            yield from self._begun(namespace, task)

    def began(self, namespace: Namespace, change: Mapping[str, Any]) -> dict[str, Any] | None:
        """The start of the tool that a graph begins to work for. None when the change is none, or it works for none."""
        call = self._calls.get(_task_id(namespace)) if change["event"] == "started" else None
        if call is None:
            return None
        self._working.setdefault(call["id"], []).append(namespace)
        return {
            "event": "tool-started",
            "tool_call_id": call["id"],
            "tool_name": call.get("name"),
            "input": call.get("args"),
        }

    def ends_of(self, tool: Mapping[str, Any]) -> Sequence[Namespace]:
        """Where else the end of a tool is to be told."""
        over = tool.get("event") in ("tool-finished", "tool-error")
        return self._working.pop(tool.get("tool_call_id", ""), ()) if over else ()

    def _begun(
        self, namespace: Namespace, task: Mapping[str, Any]
    ) -> Iterator[tuple[Namespace, dict[str, Any]]]:
        if call := _tool_call(task.get("input")):
            self._calls[task["id"]] = call
        if not namespace or namespace in self._seen:
            return
        self._seen.add(namespace)
        self._open[namespace] = _task_id(namespace)
        metadata = task.get("metadata") or {}
        name = metadata.get("lc_agent_name") or metadata.get("subagent_type")
        change: dict[str, Any] = {"event": "started", "graph_name": name or namespace[-1].partition(":")[0]}
        if caller := self._calls.get(_task_id(namespace)):
            change["cause"] = {"type": "toolCall", "tool_call_id": caller["id"]}
        yield namespace, change

    def _ended(
        self, namespace: Namespace, task: Mapping[str, Any]
    ) -> Iterator[tuple[Namespace, dict[str, Any]]]:
        over = [ns for ns, task_id in self._open.items() if ns[:-1] == namespace and task_id == task["id"]]
        for child in over:
            del self._open[child]
            if task.get("interrupts"):
                yield child, {"event": "interrupted"}
            elif error := task.get("error"):
                yield child, {"event": "failed", "error": str(error)}
            else:
                yield child, {"event": "completed"}


def _task_id(namespace: Namespace) -> str:
    return namespace[-1].partition(":")[2]


def _tool_call(given: Any) -> Mapping[str, Any] | None:
    """The tool call that a task works on, in either form that LangGraph gives it."""
    match given:
        case {"tool_call": {"id": str()} as call} | [{"id": str(), "name": _} as call, *_]:
            found: Mapping[str, Any] = call
            return found
        case _:
            return None
