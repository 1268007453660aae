"""Full values of delta channels: what makes a checkpoint readable without those before it.

LangGraph puts a delta channel together from the newest ancestor that holds a snapshot of it, and from all writes since.
A snapshot in the checkpoint itself takes the place of all that; it is stored as LangGraph stores its own.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from langchain_core.runnables import RunnableConfig
from langgraph.channels.delta import DeltaChannel
from langgraph.checkpoint.base import BaseCheckpointSaver, CheckpointTuple
from langgraph.checkpoint.serde.types import _DeltaSnapshot


class UnknownDeltas(Exception):
    """A checkpoint has delta channels that the graph does not know: its state cannot be read by this graph."""


@dataclass(frozen=True, slots=True)
class Snapshot:
    """The value of ``channel`` in a checkpoint, as the saver serialises it."""

    checkpoint_id: str
    channel: str
    version: str
    type: str
    blob: bytes = field(repr=False)


async def missing_snapshots(
    saver: BaseCheckpointSaver[Any], channels: Mapping[str, Any], thread_id: str, checkpoint_id: str
) -> list[Snapshot]:
    """Snapshots of those delta channels that the checkpoint holds none of; ``channels`` are those of the graph.

    Raises UnknownDeltas, and LookupError when there is no such checkpoint.
    """
    place: RunnableConfig = {
        "configurable": {"thread_id": thread_id, "checkpoint_ns": "", "checkpoint_id": checkpoint_id}
    }
    saved = await saver.aget_tuple(place)
    if saved is None:
        raise LookupError(checkpoint_id)
    deltas = {name: channel for name, channel in channels.items() if isinstance(channel, DeltaChannel)}
    _refuse_unknown(saved, deltas)
    versions, values = saved.checkpoint["channel_versions"], saved.checkpoint["channel_values"]
    missing = {name: channel for name, channel in deltas.items() if name in versions and name not in values}
    histories = await saver.aget_delta_channel_history(config=place, channels=list(missing))
    found = []
    for name, channel in missing.items():
        history = histories[name]
        restored = channel.from_checkpoint(history.get("seed"))
        restored.replay_writes(history["writes"])
        kind, blob = saver.serde.dumps_typed(_DeltaSnapshot(restored.get()))
        found.append(Snapshot(checkpoint_id, name, str(versions[name]), kind, blob))
    return found


def _refuse_unknown(saved: CheckpointTuple, known: Mapping[str, Any]) -> None:
    counted = saved.metadata.get("counters_since_delta_snapshot") or {}
    if unknown := sorted(set(counted) - set(known)):
        raise UnknownDeltas(", ".join(unknown))
