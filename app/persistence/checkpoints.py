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
from psycopg.errors import DivisionByZero
from psycopg.rows import DictRow
from psycopg_pool import AsyncConnectionPool

from app.persistence.outage import through_outage
from app.persistence.rollback import input_task
from app.persistence.runs import RunLost

T = TypeVar("T")

COMPACTION_CHANNEL = "compaction"
# In the configuration of a run: which attempt at it calls. It becomes part of the checkpoints' metadata, too.
ATTEMPT_KEY = "run_attempt"

OnCompaction = Callable[[str, str, str | None, str], Awaitable[object]]


class ThreadSaver(AsyncPostgresSaver):
    """A saver for one run or one state access; make a new one each time, since a saver serialises its callers.

    When a checkpoint carries new compactions, their ids go into its metadata, and ``on_compaction`` is told of each
    (thread id, compaction id, checkpoint before, checkpoint after) once the checkpoint is stored (rule F4).

    What an executing run asks (its configuration names the attempt) is asked again through an outage, and is written
    only as long as the run is that attempt's: a worker that stood still until another one took its run over would
    else put its own branch on top of the other's. Raises RunLost then.
    """

    def __init__(self, pool: AsyncConnectionPool[Any], on_compaction: OnCompaction) -> None:
        super().__init__(pool)
        self._on_compaction = on_compaction
        self._told: set[str] = set()
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
        made = [made for made in _compactions(checkpoint, new_versions) if made not in self._told]
        marked: Any = {**metadata, "compaction_id": made[-1], "compaction_ids": made} if made else metadata
        stored = await self._patiently(config, lambda: call(config, checkpoint, marked, new_versions))
        for compaction_id in made:
            await self._tell(config, compaction_id, checkpoint["id"])
        return stored

    async def aput_writes(
        self, config: RunnableConfig, writes: Sequence[tuple[str, Any]], task_id: str, task_path: str = ""
    ) -> None:
        call = super().aput_writes

        async def write() -> None:
            place = config["configurable"]
            if task_id == input_task(place["checkpoint_id"]):
                # LangGraph keeps the first writes of a task. A run that was cut off between this write and its first
                # checkpoint would leave its input in the place of the next run's.
                async with self._cursor(pipeline=True) as cursor:
                    await cursor.execute(
                        _FORGET_TASK,
                        (place["thread_id"], place["checkpoint_ns"], place["checkpoint_id"], task_id),
                    )
            await call(config, writes, task_id, task_path)

        await self._patiently(config, write)

    async def _tell(self, config: RunnableConfig, compaction_id: str, after: str) -> None:
        place = config["configurable"]
        thread_id, before = place["thread_id"], place.get("checkpoint_id")
        await self._patiently(config, lambda: self._on_compaction(thread_id, compaction_id, before, after))
        self._told.add(compaction_id)

    async def _patiently(self, config: RunnableConfig, call: Callable[[], Awaitable[T]]) -> T:
        place = config["configurable"]
        if ATTEMPT_KEY not in place:
            return await call()
        self._attempt = (place["run_id"], place[ATTEMPT_KEY])
        return await through_outage(call)

    @asynccontextmanager
    async def _cursor(self, *, pipeline: bool = False) -> AsyncIterator[AsyncCursor[DictRow]]:
        # Only writes ask for a pipeline.
        if self._attempt is None or not pipeline:
            async with super()._cursor(pipeline=pipeline) as cursor:
                yield cursor
            return
        try:
            async with super()._cursor(pipeline=True) as cursor, cursor.connection.transaction():
                # Not asked for its result, so that all goes to the server in one go.
                await cursor.connection.execute(_HOLD_RUN, self._attempt)
                yield cursor
        except DivisionByZero:
            raise RunLost(self._attempt[0]) from None


def _compactions(checkpoint: Checkpoint, new_versions: ChannelVersions) -> list[str]:
    """Ids of the compactions that the checkpoint is the first to hold; several, where a run saves only at its end."""
    marker = (
        checkpoint["channel_values"].get(COMPACTION_CHANNEL) if COMPACTION_CHANNEL in new_versions else None
    )
    return [*marker.get("earlier", ()), marker["compaction_id"]] if marker else []


_FORGET_TASK = """
DELETE FROM checkpoint_writes
WHERE thread_id = %s AND checkpoint_ns = %s AND checkpoint_id = %s AND task_id = %s
"""
# Nobody can take the run over before the write is done. Fails, and with it the transaction, when somebody has.
_HOLD_RUN = """
WITH held AS MATERIALIZED (
    SELECT 1 FROM runs WHERE run_id = %s AND attempt = %s AND status = 'running' FOR SHARE
) SELECT 1 / count(*) FROM held
"""
