"""What is written of a thread: a checkpoint, or what a task gave. Each in one statement that also holds the run which
writes it, so that a worker which has lost the run writes nothing.

The tables, and what is kept where, are those of LangGraph's saver, which reads it. That one writes the same in several
statements, which would take a transaction around them to hold the run, and fails at scalars that JSON in PostgreSQL
cannot hold.
"""

from __future__ import annotations

import asyncio
import math
from collections.abc import Mapping, Sequence, Sized
from dataclasses import dataclass
from typing import Any

from langchain_core.runnables import RunnableConfig
from langgraph.checkpoint.base import (
    WRITES_IDX_MAP,
    ChannelVersions,
    Checkpoint,
    CheckpointMetadata,
    get_serializable_checkpoint_metadata,
)
from langgraph.checkpoint.serde.base import SerializerProtocol
from langgraph.checkpoint.serde.types import _DeltaSnapshot
from psycopg.types.json import Jsonb

from app.persistence.rollback import input_task

# What takes long to encode must not keep others waiting. For less, a thread of its own would take longer than the work.
LARGE = 100


@dataclass(frozen=True, slots=True)
class Statement:
    """Yields, or changes, at least one row as long as the run is still the attempt's."""

    text: str
    parameters: Mapping[str, Any]


async def put_statement(
    serde: SerializerProtocol,
    attempt: tuple[str, int] | None,
    config: RunnableConfig,
    checkpoint: Checkpoint,
    metadata: CheckpointMetadata,
    new_versions: ChannelVersions,
) -> Statement:
    """Store a checkpoint under the one that ``config`` names; without an ``attempt`` no run is held. Scalars stay in
    it, other values are blobs of their own, one for each version of a channel."""
    values = checkpoint["channel_values"]
    apart = {name: value for name, value in values.items() if not _stays(value)}
    changed = [name for name in new_versions if name in apart]
    encoded = await _encoded(serde, [apart[name] for name in changed])
    # A snapshot of a delta channel leaves its mark: who reads must know that there is one.
    inline = {
        name: True if name in apart else value
        for name, value in values.items()
        if name not in apart or isinstance(value, _DeltaSnapshot)
    }
    return Statement(
        _PUT if attempt else _PUT_BY_NOBODY,
        {
            **_place(attempt, config),
            "checkpoint_id": checkpoint["id"],
            "parent": config["configurable"].get("checkpoint_id"),
            "channels": changed,
            "versions": [str(new_versions[name]) for name in changed],
            "types": [kind for kind, _ in encoded],
            "blobs": [data for _, data in encoded],
            "checkpoint": Jsonb({**checkpoint, "channel_values": inline}),
            "metadata": Jsonb(get_serializable_checkpoint_metadata(config, metadata)),
        },
    )


async def writes_statement(
    serde: SerializerProtocol,
    attempt: tuple[str, int],
    config: RunnableConfig,
    writes: Sequence[tuple[str, Any]],
    task_id: str,
    task_path: str,
) -> Statement:
    """Store what a task gave for the checkpoint that ``config`` names. The first writes of a task stay, but for those
    of LangGraph's own channels, and for a run's input: a run that was cut off between this write and its first
    checkpoint would else leave its input in the place of the next run's."""
    encoded = await _encoded(serde, [value for _, value in writes])
    # One row for each place, the last one counts: a statement cannot change a row twice.
    rows = {
        WRITES_IDX_MAP.get(channel, number): (channel, *typed)
        for number, ((channel, _), typed) in enumerate(zip(writes, encoded, strict=True))
    }
    checkpoint_id = config["configurable"]["checkpoint_id"]
    if task_id == input_task(checkpoint_id):
        text = _WRITE_INPUT
    else:
        text = _REPLACE if all(channel in WRITES_IDX_MAP for channel, _ in writes) else _WRITE
    return Statement(
        text,
        {
            **_place(attempt, config),
            "checkpoint_id": checkpoint_id,
            "task_id": task_id,
            "task_path": task_path,
            "places": list(rows),
            "channels": [channel for channel, _, _ in rows.values()],
            "types": [kind for _, kind, _ in rows.values()],
            "blobs": [data for _, _, data in rows.values()],
        },
    )


async def _encoded(serde: SerializerProtocol, values: Sequence[Any]) -> list[tuple[str, bytes]]:
    def encode() -> list[tuple[str, bytes]]:
        return [serde.dumps_typed(value) for value in values]

    return await asyncio.to_thread(encode) if any(map(_is_large, values)) else encode()


def _stays(value: Any) -> bool:
    """Whether it is a scalar that PostgreSQL takes in JSON: no NUL, no half of a character, nothing infinite."""
    match value:
        case str():
            return "\0" not in value and (
                value.isascii() or not any("\ud800" <= c <= "\udfff" for c in value)
            )
        case float():
            return math.isfinite(value)
        case _:
            return value is None or isinstance(value, int)


def _is_large(value: Any) -> bool:
    if isinstance(value, _DeltaSnapshot):
        value = value.value
    return isinstance(value, Sized) and len(value) > LARGE


def _place(attempt: tuple[str, int] | None, config: RunnableConfig) -> Mapping[str, Any]:
    place = config["configurable"]
    run_id, number = attempt or (None, None)
    return {
        "run_id": run_id,
        "attempt": number,
        "thread_id": place["thread_id"],
        "ns": place["checkpoint_ns"],
    }


# Nobody can take the run over before the write is done.
_HELD = """
WITH held AS MATERIALIZED (
    SELECT 1 FROM runs WHERE run_id = %(run_id)s AND attempt = %(attempt)s AND status = 'running' FOR SHARE
)"""
_BY_NOBODY = "WITH held AS MATERIALIZED (SELECT 1)"
_PUT_REST = """, blobs AS (
    INSERT INTO checkpoint_blobs (thread_id, checkpoint_ns, channel, version, type, blob)
    SELECT %(thread_id)s, %(ns)s, b.channel, b.version, b.type, b.blob
    FROM held, unnest(%(channels)b::text[], %(versions)b::text[], %(types)b::text[], %(blobs)b::bytea[])
        AS b(channel, version, type, blob)
    ON CONFLICT DO NOTHING
)
INSERT INTO checkpoints (thread_id, checkpoint_ns, checkpoint_id, parent_checkpoint_id, checkpoint, metadata)
SELECT %(thread_id)s, %(ns)s, %(checkpoint_id)s, %(parent)s, %(checkpoint)s, %(metadata)s FROM held
ON CONFLICT (thread_id, checkpoint_ns, checkpoint_id)
    DO UPDATE SET checkpoint = EXCLUDED.checkpoint, metadata = EXCLUDED.metadata
RETURNING 1
"""
_PUT, _PUT_BY_NOBODY = _HELD + _PUT_REST, _BY_NOBODY + _PUT_REST
_WRITES = f"""{_HELD}, written AS (
    INSERT INTO checkpoint_writes
        (thread_id, checkpoint_ns, checkpoint_id, task_id, task_path, idx, channel, type, blob)
    SELECT %(thread_id)s, %(ns)s, %(checkpoint_id)s, %(task_id)s, %(task_path)s, w.place, w.channel, w.type, w.blob
    FROM held, unnest(%(places)b::int[], %(channels)b::text[], %(types)b::text[], %(blobs)b::bytea[])
        AS w(place, channel, type, blob)
    ON CONFLICT (thread_id, checkpoint_ns, checkpoint_id, task_id, idx) DO"""
_WRITE = f"{_WRITES} NOTHING) SELECT 1 FROM held"
_SET = "UPDATE SET channel = EXCLUDED.channel, type = EXCLUDED.type, blob = EXCLUDED.blob"
_REPLACE = f"{_WRITES} {_SET}) SELECT 1 FROM held"
_WRITE_INPUT = f"""{_WRITES} {_SET}
), forgotten AS (
    DELETE FROM checkpoint_writes w USING held
    WHERE w.thread_id = %(thread_id)s AND w.checkpoint_ns = %(ns)s AND w.checkpoint_id = %(checkpoint_id)s
      AND w.task_id = %(task_id)s AND w.idx <> ALL(%(places)b::int[])
) SELECT 1 FROM held
"""
