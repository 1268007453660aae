"""JSON of everything a graph can hold: messages, interrupts, tasks, states, errors. Never raises."""

from __future__ import annotations

import base64
import dataclasses
import json
import math
from collections.abc import Callable, Iterable, Mapping
from datetime import date, datetime, time, timedelta
from enum import Enum
from typing import Any
from uuid import UUID

import orjson
from langchain_core.runnables import RunnableConfig
from langgraph.types import Command, Interrupt, PregelTask, Send, StateSnapshot
from pydantic import BaseModel

_OPTIONS = orjson.OPT_NON_STR_KEYS | orjson.OPT_PASSTHROUGH_DATACLASS
# orjson gives up at 254 levels; the slow way cuts there too, so that a cycle ends.
_MAX_DEPTH = 250
_BOOKKEEPING = frozenset({"counters_since_delta_snapshot"})


def dumps(value: Any) -> bytes:
    """UTF-8 JSON of any value that occurs in states, events and records.

    Messages are flat (``type, content, id, ...``), bytes base64, sets lists, NaN and infinities null, lone
    surrogates U+FFFD. What has no JSON form becomes its ``str``.
    """
    try:
        return orjson.dumps(value, default=_convert, option=_OPTIONS)
    except TypeError:
        # Lone surrogates, integers beyond 64 bits, keys that are no scalars, cycles: rare, so slow is fine.
        return json.dumps(_plain(value), ensure_ascii=False, allow_nan=False, separators=(",", ":")).encode()


def dumps_jsonb(value: Any) -> bytes:
    """As ``dumps``, for a ``jsonb`` column: NUL characters, which PostgreSQL refuses there, become U+FFFD."""
    data = dumps(value)
    if rb"\u0000" not in data:
        return data
    return dumps(_plain(json.loads(data), lambda text: text.replace("\0", "\ufffd")))


def show(value: Any, limit: int = 80) -> str:
    """A value in an error message: its JSON, shortened to ``limit`` characters."""
    text = dumps(value).decode()
    return text if len(text) <= limit else f"{text[:limit]}…"


def state_to_json(snapshot: StateSnapshot) -> dict[str, Any]:
    """The ThreadState object of a snapshot. Its values still hold message objects, for ``dumps``."""
    checkpoint = checkpoint_to_json(snapshot.config) if snapshot.created_at else None
    parent = checkpoint_to_json(snapshot.parent_config)
    return {
        "values": snapshot.values,
        "next": list(snapshot.next),
        "tasks": [_task(task) for task in snapshot.tasks],
        "metadata": {k: v for k, v in (snapshot.metadata or {}).items() if k not in _BOOKKEEPING},
        "created_at": snapshot.created_at,
        "checkpoint": checkpoint,
        "parent_checkpoint": parent,
        "interrupts": [interrupt_to_json(interrupt) for interrupt in snapshot.interrupts],
        "checkpoint_id": checkpoint and checkpoint["checkpoint_id"],
        "parent_checkpoint_id": parent and parent["checkpoint_id"],
    }


def checkpoint_to_json(config: RunnableConfig | Mapping[str, Any] | None) -> dict[str, Any] | None:
    """The Checkpoint object (``thread_id, checkpoint_ns, checkpoint_id``) that a config names, or None."""
    place = (config or {}).get("configurable") or {}
    if not place.get("checkpoint_id"):
        return None
    checkpoint = {
        "thread_id": place.get("thread_id"),
        "checkpoint_ns": place.get("checkpoint_ns", ""),
        "checkpoint_id": place["checkpoint_id"],
    }
    if place.get("checkpoint_map"):
        checkpoint["checkpoint_map"] = place["checkpoint_map"]
    return checkpoint


def interrupt_to_json(interrupt: Interrupt) -> dict[str, Any]:
    """The Interrupt object: ``value, id`` and, when the graph gave one, ``response_schema``."""
    shown = {"value": interrupt.value, "id": interrupt.id}
    if interrupt.response_schema is not None:
        shown["response_schema"] = interrupt.response_schema
    return shown


def error_to_json(error: BaseException | str) -> dict[str, str]:
    """The form of an error in events and results: ``{error: class name, message}``."""
    if isinstance(error, str):
        return {"error": "Error", "message": error}
    return {"error": type(error).__name__, "message": str(error)}


def _task(task: PregelTask) -> dict[str, Any]:
    nested = task.state if isinstance(task.state, StateSnapshot) else None
    place = None if nested or not task.state else task.state
    return {
        "id": task.id,
        "name": task.name,
        "path": task.path,
        "error": None if task.error is None else _error_text(task.error),
        "interrupts": [interrupt_to_json(interrupt) for interrupt in task.interrupts],
        "checkpoint": place and dict(place.get("configurable") or {}),  # type: ignore[union-attr]
        "state": nested and state_to_json(nested),
        "result": task.result,
    }


def _error_text(error: BaseException | str) -> str:
    return error if isinstance(error, str) else f"{type(error).__name__}: {error}"


def _fields(value: Any, skip: Iterable[Any] = ()) -> dict[str, Any]:
    pairs = ((field.name, getattr(value, field.name)) for field in dataclasses.fields(value))
    return {name: item for name, item in pairs if item not in skip}


def _base64(value: Any) -> str:
    return base64.b64encode(bytes(value)).decode()


# The first class that matches wins.
_CONVERTERS: tuple[tuple[type | tuple[type, ...], Callable[[Any], Any]], ...] = (
    (BaseModel, lambda model: model.model_dump()),
    (Interrupt, interrupt_to_json),
    (Send, lambda send: {"node": send.node, "arg": send.arg}),
    (Command, lambda command: _fields(command, skip=(None, ()))),
    (StateSnapshot, state_to_json),
    (BaseException, error_to_json),
    (Enum, lambda member: member.value),
    ((datetime, date, time), lambda moment: moment.isoformat()),
    (timedelta, lambda span: span.total_seconds()),
    (UUID, str),
    ((bytes, bytearray, memoryview), _base64),
    (type, lambda cls: f"{cls.__module__}.{cls.__qualname__}"),
    (Mapping, dict),
)


def _convert(value: Any) -> Any:
    """One step towards JSON for a value that is not JSON itself."""
    try:
        for classes, convert in _CONVERTERS:
            if isinstance(value, classes):
                return convert(value)
        if dataclasses.is_dataclass(value):
            return _fields(value)
        if hasattr(value, "_asdict"):
            return value._asdict()
        return list(value) if isinstance(value, Iterable) and not hasattr(value, "__next__") else str(value)
    except Exception:  # noqa: BLE001 - an object that cannot describe itself must not break the answer
        return object.__repr__(value)


def _plain(value: Any, clean: Callable[[str], str] | None = None, depth: int = 0) -> Any:
    clean = clean or _without_lone_surrogates
    if value is None or isinstance(value, bool):
        return value
    if isinstance(value, str) and not isinstance(value, Enum):
        return clean(value)
    if isinstance(value, int) and not isinstance(value, Enum):
        return int(value)
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if depth > _MAX_DEPTH:
        return "…"
    if isinstance(value, dict):
        return {clean(_key(key)): _plain(item, clean, depth + 1) for key, item in value.items()}
    if isinstance(value, list) or type(value) is tuple:
        return [_plain(item, clean, depth + 1) for item in value]
    return _plain(_convert(value), clean, depth + 1)


def _key(key: Any) -> str:
    match key:
        case str() if not isinstance(key, Enum):
            return key
        case None | bool():
            return json.dumps(key)
        case Enum():
            return _key(key.value)
        case _:
            return str(key)


def _without_lone_surrogates(text: str) -> str:
    # Through UTF-16, so that the two halves of one character that a stream parted find each other again.
    return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")
