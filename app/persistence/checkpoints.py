"""The checkpointer: LangGraph's PostgreSQL saver that also links a compaction with the checkpoint that holds it."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

from langchain_core.runnables import RunnableConfig
from langgraph.checkpoint.base import ChannelVersions, Checkpoint, CheckpointMetadata
from langgraph.checkpoint.postgres.aio import AsyncPostgresSaver
from psycopg_pool import AsyncConnectionPool

COMPACTION_CHANNEL = "compaction"

OnCompaction = Callable[[str, str | None, str], Awaitable[object]]


class ThreadSaver(AsyncPostgresSaver):
    """A saver for one run or one state access; make a new one each time, since a saver serialises its callers.

    When a checkpoint carries a new compaction, its id goes into the checkpoint's metadata, and ``on_compaction`` is
    told (compaction id, checkpoint before, checkpoint after) once the checkpoint is stored (rule F4).
    """

    def __init__(self, pool: AsyncConnectionPool[Any], on_compaction: OnCompaction) -> None:
        super().__init__(pool)
        self._on_compaction = on_compaction

    async def aput(
        self,
        config: RunnableConfig,
        checkpoint: Checkpoint,
        metadata: CheckpointMetadata,
        new_versions: ChannelVersions,
    ) -> RunnableConfig:
        compaction_id = _new_compaction(checkpoint, new_versions)
        if compaction_id is None:
            return await super().aput(config, checkpoint, metadata, new_versions)
        marked: Any = {**metadata, "compaction_id": compaction_id}
        stored = await super().aput(config, checkpoint, marked, new_versions)
        before = config["configurable"].get("checkpoint_id")
        await self._on_compaction(compaction_id, before, checkpoint["id"])
        return stored


def _new_compaction(checkpoint: Checkpoint, new_versions: ChannelVersions) -> str | None:
    if COMPACTION_CHANNEL not in new_versions:
        return None
    marker = checkpoint["channel_values"].get(COMPACTION_CHANNEL)
    return marker["compaction_id"] if marker else None
