"""The checkpointer: LangGraph's PostgreSQL saver that also links a compaction with the checkpoint that holds it."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from typing import Any, TypeVar

from langchain_core.runnables import RunnableConfig
from langgraph.checkpoint.base import (
    ChannelVersions,
    Checkpoint,
    CheckpointMetadata,
    CheckpointTuple,
    DeltaChannelHistory,
)
from langgraph.checkpoint.postgres.aio import AsyncPostgresSaver
from psycopg import AsyncCursor
from psycopg.rows import DictRow
from psycopg_pool import AsyncConnectionPool

from app.persistence.outage import through_outage
from app.persistence.runs import RunLost

T = TypeVar("T")

COMPACTION_CHANNEL = "compaction"
# In the configuration of a run: which attempt at it calls. It becomes part of the checkpoints' metadata, too.
ATTEMPT_KEY = "run_attempt"

OnCompaction = Callable[[str, str | None, str], Awaitable[object]]


class ThreadSaver(AsyncPostgresSaver):
    """A saver for one run or one state access; make a new one each time, since a saver serialises its callers.

    When a checkpoint carries a new compaction, its id goes into the checkpoint's metadata, and ``on_compaction`` is
    told (compaction id, checkpoint before, checkpoint after) once the checkpoint is stored (rule F4).

    What an executing run asks (its configuration names the attempt) is asked again through an outage, and is written
    only as long as the run is that attempt's: a worker that stood still until another one took its run over would
    else put its own branch on top of the other's. Raises RunLost then.
    """

    def __init__(self, pool: AsyncConnectionPool[Any], on_compaction: OnCompaction) -> None:
        super().__init__(pool)
        self._on_compaction = on_compaction
        self._attempt: tuple[str, int] | None = None

    async def aget_tuple(self, config: RunnableConfig) -> CheckpointTuple | None:
        call = super().aget_tuple
        return await self._patiently(config, lambda: call(config))

    async def aget_delta_channel_history(
        self, *, config: RunnableConfig, channels: Sequence[str]
    ) -> Mapping[str, DeltaChannelHistory]:
        call = super().aget_delta_channel_history
        return await self._patiently(config, lambda: call(config=config, channels=channels))

    async def aput(
        self,
        config: RunnableConfig,
        checkpoint: Checkpoint,
        metadata: CheckpointMetadata,
        new_versions: ChannelVersions,
    ) -> RunnableConfig:
        call = super().aput
        compaction_id = _new_compaction(checkpoint, new_versions)
        marked: Any = {**metadata, "compaction_id": compaction_id} if compaction_id else metadata
        stored = await self._patiently(config, lambda: call(config, checkpoint, marked, new_versions))
        if compaction_id:
            before = config["configurable"].get("checkpoint_id")
            after = checkpoint["id"]
            await self._patiently(config, lambda: self._on_compaction(compaction_id, before, after))
        return stored

    async def aput_writes(
        self, config: RunnableConfig, writes: Sequence[tuple[str, Any]], task_id: str, task_path: str = ""
    ) -> None:
        call = super().aput_writes
        await self._patiently(config, lambda: call(config, writes, task_id, task_path))

    async def _patiently(self, config: RunnableConfig, call: Callable[[], Awaitable[T]]) -> T:
        place = config["configurable"]
        if ATTEMPT_KEY not in place:
            return await call()
        self._attempt = (place["run_id"], place[ATTEMPT_KEY])
        return await through_outage(call)

    @asynccontextmanager
    async def _cursor(self, *, pipeline: bool = False) -> AsyncIterator[AsyncCursor[DictRow]]:
        async with super()._cursor(pipeline=pipeline) as cursor:
            # Only writes ask for a pipeline.
            if self._attempt is None or not pipeline:
                yield cursor
                return
            async with cursor.connection.transaction():
                held = await cursor.connection.execute(_HOLD_RUN, self._attempt)
                if await held.fetchone() is None:
                    raise RunLost(self._attempt[0])
                yield cursor


def _new_compaction(checkpoint: Checkpoint, new_versions: ChannelVersions) -> str | None:
    if COMPACTION_CHANNEL not in new_versions:
        return None
    marker = checkpoint["channel_values"].get(COMPACTION_CHANNEL)
    return marker["compaction_id"] if marker else None


# Nobody can take the run over before the write is done.
_HOLD_RUN = "SELECT 1 FROM runs WHERE run_id = %s AND attempt = %s AND status = 'running' FOR SHARE"
