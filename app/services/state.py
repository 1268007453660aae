"""State: read through the graph, written as the thread's one writer."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from langgraph.types import StateSnapshot

from app.persistence.threads import StateSummary
from app.serialization import dumps, interrupt_to_json

# A row keeps what people filter and list threads by (a title, a flag), not the work itself.
MAX_KEPT_BYTES = 4096
_NEVER_KEPT = frozenset({"messages", "summary_text"})


class StateService:
    """The use cases of state."""


def summarize_snapshot(snapshot: StateSnapshot) -> StateSummary:
    """What the thread's row keeps of its newest state: small values, open interrupts by task, idle or
    interrupted.
    """
    interrupts = {
        task.id: [interrupt_to_json(interrupt) for interrupt in task.interrupts]
        for task in snapshot.tasks
        if task.interrupts
    }
    waiting = bool(snapshot.next or interrupts)
    return StateSummary(_small(snapshot.values), interrupts, "interrupted" if waiting else "idle")


def _small(values: Any) -> dict[str, Any]:
    if not isinstance(values, Mapping):
        return {}
    return {
        name: value
        for name, value in values.items()
        if name not in _NEVER_KEPT and value is not None and len(dumps(value)) <= MAX_KEPT_BYTES
    }
