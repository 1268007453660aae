"""The checkpointer: LangGraph's PostgreSQL saver that also links a compaction with the checkpoint that holds it."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
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
from psycopg_pool import AsyncConnectionPool

from app.persistence.checkpoint_writes import Statement, put_statement, writes_statement
from app.persistence.outage import through_outage
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
        self._pool = pool
        self._told: set[str] = set()
        self._left_out: frozenset[str] = frozenset()

    def leave_out(self, channels: Iterable[str]) -> None:
        """These channels are empty where reading them would mean to go back through the thread's history."""
        self._left_out = frozenset(channels)

    async def aget_tuple(self, config: RunnableConfig) -> CheckpointTuple | None:
        call = super().aget_tuple
        return await self._patiently(config, lambda: call(config))

    async def aget_delta_channel_history(
        self, *, config: RunnableConfig, channels: Sequence[str]
    ) -> Mapping[str, DeltaChannelHistory]:
        call = super().aget_delta_channel_history
        wanted = [channel for channel in channels if channel not in self._left_out]
        found = await self._patiently(config, lambda: call(config=config, channels=wanted)) if wanted else {}
        nothing: DeltaChannelHistory = {"writes": []}
        return {channel: found.get(channel, nothing) for channel in channels}

    async def aput(
        self,
        config: RunnableConfig,
        checkpoint: Checkpoint,
        metadata: CheckpointMetadata,
        new_versions: ChannelVersions,
    ) -> RunnableConfig:
        made = [made for made in _compactions(checkpoint, new_versions) if made not in self._told]
        marked: Any = {**metadata, "compaction_id": made[-1], "compaction_ids": made} if made else metadata
        attempt = _attempt(config)
        statement = await put_statement(self.serde, attempt, config, checkpoint, marked, new_versions)
        if attempt:
            await self._write(attempt, statement)
        else:
            await self._changes(statement)
        for compaction_id in made:
            await self._tell(config, compaction_id, checkpoint["id"])
        place = {key: config["configurable"][key] for key in ("thread_id", "checkpoint_ns")}
        return {"configurable": {**place, "checkpoint_id": checkpoint["id"]}}

    async def aput_writes(
        self, config: RunnableConfig, writes: Sequence[tuple[str, Any]], task_id: str, task_path: str = ""
    ) -> None:
        if attempt := _attempt(config):
            await self._write(
                attempt, await writes_statement(self.serde, attempt, config, writes, task_id, task_path)
            )
        else:
            await super().aput_writes(config, writes, task_id, task_path)

    async def _tell(self, config: RunnableConfig, compaction_id: str, after: str) -> None:
        place = config["configurable"]
        thread_id, before = place["thread_id"], place.get("checkpoint_id")
        await self._patiently(config, lambda: self._on_compaction(thread_id, compaction_id, before, after))
        self._told.add(compaction_id)

    async def _patiently(self, config: RunnableConfig, call: Callable[[], Awaitable[T]]) -> T:
        return await through_outage(call) if _attempt(config) else await call()

    async def _write(self, attempt: tuple[str, int], statement: Statement) -> None:
        if not await through_outage(lambda: self._changes(statement)):
            raise RunLost(attempt[0])

    async def _changes(self, statement: Statement) -> bool:
        async with self.lock, self._pool.connection() as connection:
            cursor = await connection.execute(statement.text, statement.parameters)
            return cursor.rowcount > 0


def _attempt(config: RunnableConfig) -> tuple[str, int] | None:
    """The executing run that asks, and which attempt at it."""
    place = config["configurable"]
    return (place["run_id"], place[ATTEMPT_KEY]) if ATTEMPT_KEY in place else None


def _compactions(checkpoint: Checkpoint, new_versions: ChannelVersions) -> list[str]:
    """Ids of the compactions that the checkpoint is the first to hold; several, where a run saves only at its end."""
    marker = (
        checkpoint["channel_values"].get(COMPACTION_CHANNEL) if COMPACTION_CHANNEL in new_versions else None
    )
    return [*marker.get("earlier", ()), marker["compaction_id"]] if marker else []
