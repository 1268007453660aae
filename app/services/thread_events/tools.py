"""Mode ``tools`` of a run's stream: the tools as they run, in the form that the JavaScript client expects."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any


@dataclass(slots=True)
class ToolEvents:
    """Knows the names of the tools that run: LangGraph says them only once."""

    _names: dict[str, str] = field(default_factory=dict)

    def shown(self, told: Mapping[str, Any]) -> dict[str, Any]:
        """What LangGraph tells of a tool, as clients of this mode know it."""
        call_id = told["tool_call_id"]
        name = self._names.setdefault(call_id, told.get("tool_name") or "")
        event: dict[str, Any] = {"toolCallId": call_id, "name": name}
        match told["event"]:
            case "tool-started":
                return {"event": "on_tool_start", **event, "input": told.get("input")}
            case "tool-output-delta":
                return {"event": "on_tool_event", **event, "data": told.get("delta")}
            case "tool-finished":
                return {"event": "on_tool_end", **event, "output": told.get("output")}
            case _:
                return {"event": "on_tool_error", **event, "error": told.get("message")}
