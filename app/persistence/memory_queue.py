"""The queue of what is to be read for facts about people: procrastinate jobs beside the runs, in a queue of their own.

A job says where something is to be read, never what: the words stay where they are. Jobs of one thread are worked off
one at a time, and a finished turn that finds one waiting needs none of its own.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from typing import Any

import procrastinate
import psycopg
from procrastinate import exceptions, jobs, retry
from procrastinate.worker import Worker
from psycopg_pool import AsyncConnectionPool, PoolTimeout

from app.persistence.outage import PATIENCE_SECONDS
from app.persistence.queue import WorkerSettings
from app.telemetry import redact

QUEUE = "memory"
TASK = "threadkeep.read_for_memory"
CONCURRENCY = 2
RESTART_SECONDS = 1.0
LONGEST_POLL_SECONDS = 5.0
SHORTEST_POLL_SECONDS = 0.2
# How much longer than the grace time a stopping worker may take to put back what it was reading.
PUT_BACK_SECONDS = 2.0
# A compaction's messages are archived right after its job is queued.
ARCHIVED_SECONDS = 1.0
# A provider's error may repeat the whole request.
MAX_ERROR_CHARACTERS = 300
PAUSES_SECONDS = (10.0, 60.0, 300.0)
"""Before the second, third and last try."""

# Any number that no other advisory lock of this database uses.
_SWEEP_LOCK = 0x74686B70_6D656D6F

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class MemoryJob:
    """What to read: the messages that a compaction removed, or (``compaction_id`` None) those of the thread.

    ``model_name`` is the model of the run it comes from; ``question_id`` names the message that the conversation went
    on with.
    """

    thread_id: str
    model_name: str
    compaction_id: str | None = None
    question_id: str | None = None


Read = Callable[[MemoryJob], Awaitable[None]]


class _Pauses(retry.BaseRetryStrategy):
    """Back at once when the worker is stopping, later after a failure, not at all after the last pause."""

    def __init__(self, pauses_s: Sequence[float]) -> None:
        self._pauses_s = pauses_s

    def get_retry_decision(self, *, exception: BaseException, job: jobs.Job) -> retry.RetryDecision | None:
        if isinstance(exception, asyncio.CancelledError):
            return retry.RetryDecision(retry_in={"seconds": 0})
        if job.attempts >= len(self._pauses_s):
            return None
        return retry.RetryDecision(retry_in={"milliseconds": int(self._pauses_s[job.attempts] * 1000)})


class MemoryQueue:
    """Defers jobs, and works them off once it is started. ``delay_s`` passes before a job is begun."""

    def __init__(
        self,
        pool: AsyncConnectionPool[Any],
        settings: WorkerSettings,
        delay_s: float,
        pauses_s: Sequence[float] = PAUSES_SECONDS,
    ) -> None:
        self._pool = pool
        self._settings = settings
        self._delay_s = delay_s
        self._pauses_s = pauses_s
        self._app = procrastinate.App(connector=procrastinate.PsycopgConnector())
        self._stopping = asyncio.Event()
        self._worker: Worker | None = None
        self._working: asyncio.Task[None] | None = None
        self._mending: asyncio.Task[None] | None = None

    async def open(self) -> None:
        await self._app.open_async(self._pool)

    async def defer(self, job: MemoryJob) -> None:
        """Read after the delay. Of a thread's turns one job waits at a time and reads all that were finished by then;
        each compaction has its own."""
        delay_s = max(self._delay_s, ARCHIVED_SECONDS) if job.compaction_id else self._delay_s
        configured = self._app.configure_task(
            TASK,
            queue=QUEUE,
            lock=f"memory:{job.thread_id}",
            queueing_lock=f"memory:{job.compaction_id or job.thread_id}",
            schedule_in={"milliseconds": int(delay_s * 1000)},
        )
        with suppress(exceptions.AlreadyEnqueued):
            await configured.defer_async(**asdict(job))

    async def return_stalled(self) -> None:
        """Queue the jobs of dead workers again; one that ended several of them is given up. One process at a time."""
        async with self._pool.connection() as conn, conn.transaction():
            cursor = await conn.execute("SELECT pg_try_advisory_xact_lock(%s) AS mine", (_SWEEP_LOCK,))
            row = await cursor.fetchone()
            if not (row and row["mine"]):
                return
            manager = self._app.job_manager
            for job in await manager.get_stalled_jobs(
                queue=QUEUE, seconds_since_heartbeat=self._settings.stalled
            ):
                assert job.id is not None  # it comes from the table
                if job.attempts < len(self._pauses_s):
                    await manager.retry_job_by_id_async(job.id, retry_at=datetime.now(UTC))
                else:
                    log.warning("%s is given up: its workers are gone", job.call_string)
                    await manager.finish_job_by_id_async(job.id, jobs.Status.FAILED, delete_job=True)

    def start(self, read: Read) -> None:
        """Work in this process until ``stop``."""
        self._app.task(name=TASK, queue=QUEUE, retry=_Pauses(self._pauses_s), pass_context=True)(
            self._task(read)
        )
        self._working = asyncio.create_task(self._work(), name="memory worker")
        self._mending = asyncio.create_task(self._mend(), name="memory jobs of dead workers")

    async def stop(self) -> None:
        """Take no new job, let the running ones finish within the grace time, put the others back."""
        self._stopping.set()
        if self._working is None or self._mending is None:
            return
        self._mending.cancel()
        give_up_at = asyncio.get_running_loop().time() + self._settings.grace + PUT_BACK_SECONDS
        while not self._working.done() and asyncio.get_running_loop().time() < give_up_at:
            # Repeated, since a worker that is only just starting forgets that it was told.
            if self._worker:
                self._worker.stop()
            await asyncio.wait({self._working}, timeout=0.2)
        self._working.cancel()
        await asyncio.wait({self._working}, timeout=1.0)

    def _task(self, read: Read) -> Callable[..., Awaitable[None]]:
        async def read_for_memory(context: procrastinate.JobContext, **arguments: Any) -> None:
            await self._let_others_wait(context.job)
            try:
                await read(MemoryJob(**arguments))
            except Exception as error:
                tries = f"try {context.job.attempts + 1} of {len(self._pauses_s) + 1}"
                log.warning(
                    "thread %s cannot be read for facts (%s): %s: %s",
                    arguments.get("thread_id"),
                    tries,
                    type(error).__name__,
                    redact(str(error))[:MAX_ERROR_CHARACTERS],
                )
                raise

        return read_for_memory

    async def _let_others_wait(self, job: jobs.Job) -> None:
        """A turn that is finished from now on needs a job of its own. Nor may this one keep the lock when it is put
        back: there could be two of that lock then, which the queue refuses."""
        async with self._pool.connection() as conn:
            await conn.execute("UPDATE procrastinate_jobs SET queueing_lock = NULL WHERE id = %s", (job.id,))

    async def _work(self) -> None:
        while not self._stopping.is_set():
            self._worker = self._new_worker()
            try:
                await self._worker.run()
            except Exception as error:  # noqa: BLE001 - whatever ended the worker, it must work again
                log.warning("the memory worker stopped and is started again: %s", error.__cause__ or error)
            with suppress(TimeoutError):
                await asyncio.wait_for(self._stopping.wait(), RESTART_SECONDS)

    async def _mend(self) -> None:
        while not self._stopping.is_set():
            try:
                await self.return_stalled()
            except (psycopg.Error, PoolTimeout, exceptions.ConnectorException) as error:
                log.warning("cannot look for memory jobs of dead workers: %s", error)
            with suppress(TimeoutError):
                await asyncio.wait_for(self._stopping.wait(), self._settings.stalled / 2)

    def _new_worker(self) -> Worker:
        """Without announcements, which would hold a connection: all jobs wait for their time, which none announces."""
        return Worker(
            self._app,
            queues=[QUEUE],
            concurrency=CONCURRENCY,
            install_signal_handlers=False,
            delete_jobs=jobs.DeleteJobCondition.ALWAYS,
            listen_notify=False,
            fetch_job_polling_interval=min(LONGEST_POLL_SECONDS, max(SHORTEST_POLL_SECONDS, self._delay_s)),
            update_heartbeat_interval=self._settings.heartbeat,
            stalled_worker_timeout=self._settings.stalled + PATIENCE_SECONDS,
            shutdown_graceful_timeout=self._settings.grace,
        )
