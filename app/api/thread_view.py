"""The Thread object as clients see it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import UTC
from typing import Any

import orjson

from app.api.extract import extract
from app.persistence.threads import LEFT_OUT, Thread
from app.serialization import dumps
from app.services.threads.state import NEVER_KEPT


def thread_to_json(thread: Thread, values: Any) -> dict[str, Any]:
    """All fields. ``values`` are the live channel values, which the row does not have."""
    changed = thread.state_updated_at
    return {
        "thread_id": thread.thread_id,
        "created_at": thread.created_at.astimezone(UTC),
        "updated_at": thread.updated_at.astimezone(UTC),
        "state_updated_at": changed and changed.astimezone(UTC),
        "metadata": thread.metadata,
        "config": thread.config,
        "context": {},
        "status": thread.status,
        "values": values,
        "interrupts": thread.interrupts,
        "error": thread.error,
    }


def with_choice(
    shown: dict[str, Any], select: Sequence[str] | None, paths: Mapping[str, str] | None
) -> dict[str, Any]:
    """The selected fields (all when none is named), and what was asked for by path as ``extracted``."""
    chosen = {name: shown[name] for name in select} if select else shown
    if not paths:
        return chosen
    plain = orjson.loads(dumps(shown))
    return {**chosen, "extracted": {alias: extract(plain, path) for alias, path in paths.items()}}


def needs_values(thread: Thread, select: Sequence[str] | None, paths: Mapping[str, str] | None) -> bool:
    """Whether the state has to be read for what is shown; reading states is what a search costs.

    The row of a thread that is not at work has its small values, the title among them, and says which were too large
    for it: a list of titles reads none, also of threads that have no title.
    """
    if not select or "values" in select:
        return True
    asked = [_channel(path) for path in (paths or {}).values() if path.startswith("values")]
    kept = thread.values
    if kept is None or thread.status == "busy":
        return bool(asked)
    elsewhere = {"", *NEVER_KEPT, *kept.get(LEFT_OUT, ())}
    return any(channel in elsewhere for channel in asked)


def _channel(path: str) -> str:
    """The channel that a path into the values begins with."""
    return path.removeprefix("values").lstrip(".").split(".")[0].split("[")[0]
