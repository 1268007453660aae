"""The queue of runs: procrastinate jobs on the same PostgreSQL. One job per run, ``lock`` = thread id, so that the
runs of a thread are executed one at a time and in the order in which they were admitted."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable, Iterable
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

import procrastinate
from procrastinate import jobs, retry
from procrastinate.types import TimeDeltaParams
from procrastinate.worker import Worker
from psycopg import AsyncConnection
from psycopg_pool import AsyncConnectionPool

from app.persistence.cancellation import cancelled
from app.persistence.outage import PATIENCE_SECONDS, one_line
from app.persistence.queue_connection import QueueConnector

QUEUE = "runs"
TASK = "threadkeep.execute_run"
RESTART_SECONDS = 1.0
# Jobs are announced. Those that wait for their time are not, nor is anything while the connection is lost.
POLL_SECONDS = 1.0
# How much longer than the grace time a stopping worker may take to put back what it executed.
PUT_BACK_SECONDS = 4.0
# Procrastinate takes the highest priority first, also within a thread: a run that was begun goes before those that
# wait, and a delayed one after them, delayed ones among each other in the order of their times.
BEGUN, NORMAL = 1, 0
_DELAYED_SINCE = 1_735_689_600  # 2025: keeps the negative of a time in seconds within 32 bits

log = logging.getLogger(__name__)


class HandBack(Exception):
    """Raised by the executor: the job goes back to the queue, to be started no sooner than in ``delay_s`` seconds."""

    def __init__(self, run_id: str, delay_s: float = 0.0) -> None:
        super().__init__(run_id)
        self.delay_s = delay_s


class _RetryHandBack(retry.BaseRetryStrategy):
    def get_retry_decision(self, *, exception: BaseException, job: jobs.Job) -> retry.RetryDecision | None:
        if not isinstance(exception, HandBack):
            return None
        return retry.RetryDecision(retry_in={"milliseconds": int(exception.delay_s * 1000)})


@dataclass(frozen=True, slots=True)
class WorkerSettings:
    """``concurrency``: runs at once in this process. Seconds: ``heartbeat`` of a worker, ``stalled`` = silent for so
    long counts as dead, ``grace`` = how long a stopping worker lets its runs finish."""

    concurrency: int = 16
    heartbeat: float = 5.0
    stalled: float = 20.0
    grace: float = 10.0


@dataclass(frozen=True, slots=True)
class NewJob:
    """What is queued with a run in the statement that admits it. ``delay_s``: to be started no sooner, None at once."""

    queue: str
    task: str
    priority: int
    delay_s: float | None


def new_job(delay_s: float = 0.0) -> NewJob:
    return NewJob(QUEUE, TASK, _priority(delay_s, NORMAL), delay_s or None)


def _priority(delay_s: float, priority: int) -> int:
    return _DELAYED_SINCE - int(time.time() + delay_s) if delay_s else priority


class RunQueue:
    """Defers runs and works them off. ``execute`` gets a run id and never raises but for HandBack."""

    def __init__(
        self,
        pool: AsyncConnectionPool[Any],
        execute: Callable[[str], Awaitable[None]],
        settings: WorkerSettings,
    ) -> None:
        self._pool = pool
        self._execute = execute
        self._settings = settings
        self._app = procrastinate.App(connector=QueueConnector())
        self._task = self._app.task(name=TASK, queue=QUEUE, retry=_RetryHandBack(), pass_context=True)(
            self._execute_job
        )
        self._executing: set[int] = set()
        self._suspected: set[int] = set()
        self._silent: set[int | None] = set()
        self._worker: Worker | None = None
        self._working: asyncio.Task[None] | None = None
        self._beating: asyncio.Task[None] | None = None
        self._stopping = asyncio.Event()

    async def open(self) -> None:
        await self._app.open_async(self._pool)

    async def defer(
        self,
        connection: AsyncConnection[Any],
        run_id: str,
        thread_id: str,
        delay_s: float = 0.0,
        priority: int = NORMAL,
    ) -> int:
        """Queue a run inside the caller's transaction, to be started no sooner than in ``delay_s`` seconds. Returns
        the job id."""
        later: TimeDeltaParams | None = {"milliseconds": int(delay_s * 1000)} if delay_s else None
        configured = self._task.configure(
            lock=thread_id, connection=connection, schedule_in=later, priority=_priority(delay_s, priority)
        )
        return await configured.defer_async(run_id=run_id)

    async def abort(self, job_id: int) -> None:
        """Cancel the executing task of a job, on whichever worker it runs."""
        await self._app.job_manager.cancel_job_by_id_async(job_id, abort=True)

    async def return_stalled(self) -> int:
        """Queue the runs of dead workers again. Returns how many; any number of processes may do it at once.

        A worker is dead when it was silent for long now, and for a while at the last look, half as long ago. Once is
        not enough: while the database was away all were silent, and those that live say so as soon as it is back.
        """
        silent = await self._silent_for(self._settings.stalled / 3)
        long_silent = await self._silent_for(self._settings.stalled)
        # Its runs have given up on the database, too.
        gone = {job.id for job in await self._silent_for(self._settings.stalled + PATIENCE_SECONDS)}
        dead = [job for job in long_silent if job.id in self._silent | gone]
        self._silent = {job.id for job in silent}
        return await self._replace(dead)

    async def return_abandoned(self) -> int:
        """Queue runs again whose job this process fetched and does not execute: the database went away in between.
        A job must be seen so twice, since one that was fetched just now is not executed yet."""
        worker_id = self._worker.worker_id if self._worker else None
        if worker_id is None:
            return 0
        fetched = await self._app.job_manager.list_jobs_async(status="doing", worker_id=worker_id)
        idle = {job.id: job for job in fetched if job.id is not None and job.id not in self._executing}
        abandoned = [job for job_id, job in idle.items() if job_id in self._suspected]
        self._suspected = set(idle)
        return await self._replace(abandoned)

    async def requeue(self, run_id: str, job_id: int | None) -> bool:
        """Queue a run under a new job in the place of ``job_id``. False when somebody else did, or it has ended.

        A new one, since a worker that was thought dead ends its job when it comes back, and with it would end the
        job that is executed elsewhere by then.
        """
        async with self._pool.connection() as conn, conn.transaction():
            row = await (await conn.execute(_TAKE_RUN, {"run_id": run_id, "job_id": job_id})).fetchone()
            await conn.execute("DELETE FROM procrastinate_jobs WHERE id = %s", (job_id,))
            if row is None:
                return False
            priority = BEGUN if row["attempt"] else NORMAL
            new = await self.defer(conn, run_id, row["thread_id"], priority=priority)
            await conn.execute("UPDATE runs SET job_id = %s WHERE run_id = %s", (new, run_id))
            return True

    def start(self) -> None:
        """Work in this process until ``stop``."""
        self._working = asyncio.create_task(self._work(), name="run worker")

    def begin_stop(self) -> None:
        """Take no new run. The grace time of the running ones begins."""
        self._stopping.set()
        if self._working and self._beating is None:
            self._beating = asyncio.create_task(self._beat(), name="heartbeat of a stopping worker")
        if self._worker:
            self._worker.stop()

    async def stop(self) -> None:
        """Take no new run, let the running ones finish within the grace time, hand the others back."""
        if self._working is None:
            return
        give_up_at = time.monotonic() + self._settings.grace + PUT_BACK_SECONDS
        while not self._working.done() and time.monotonic() < give_up_at:
            # Repeated, since a worker that is only just starting forgets that it was told.
            self.begin_stop()
            await asyncio.wait({self._working}, timeout=0.2)
        if not self._working.done():
            log.warning("the run worker does not stop; what it executes is taken up by another one")
            self._working.cancel()
            await asyncio.wait({self._working}, timeout=1.0)
        if self._beating:
            await cancelled(self._beating)

    async def _beat(self) -> None:
        """Say that this worker lives. Procrastinate's own says nothing more once it stops, and with a long grace time
        what it still executes would be taken over."""
        while True:
            worker_id = self._worker.worker_id if self._worker else None
            if worker_id is not None:
                await self._app.job_manager.update_heartbeat(worker_id)
            await asyncio.sleep(self._settings.heartbeat)

    async def _silent_for(self, seconds: float) -> list[jobs.Job]:
        found = await self._app.job_manager.get_stalled_jobs(queue=QUEUE, seconds_since_heartbeat=seconds)
        return list(found)

    async def _replace(self, lost: Iterable[jobs.Job]) -> int:
        replaced = 0
        for job in lost:
            run_id = str(job.task_kwargs.get("run_id"))
            if await self.requeue(run_id, job.id):
                replaced += 1
                log.warning("the worker of run %s is gone; the run is queued again", run_id)
        return replaced

    async def _execute_job(self, context: procrastinate.JobContext, run_id: str) -> None:
        assert context.job.id is not None  # it comes from the table
        self._executing.add(context.job.id)
        try:
            await self._execute(run_id)
        finally:
            self._executing.discard(context.job.id)

    async def _work(self) -> None:
        while not self._stopping.is_set():
            self._worker = self._new_worker()
            try:
                await self._worker.run()
            except Exception as error:  # noqa: BLE001 - whatever ended the worker, it must work again
                log.warning("the run worker stopped and is started again: %s", one_line(error))
            with suppress(TimeoutError):
                await asyncio.wait_for(self._stopping.wait(), RESTART_SECONDS)

    def _new_worker(self) -> Worker:
        return Worker(
            self._app,
            queues=[QUEUE],
            concurrency=self._settings.concurrency,
            install_signal_handlers=False,
            delete_jobs=jobs.DeleteJobCondition.ALWAYS,
            fetch_job_polling_interval=POLL_SECONDS,
            abort_job_polling_interval=POLL_SECONDS,
            update_heartbeat_interval=self._settings.heartbeat,
            # A worker that starts forgets those that are silent, and all are right after an outage.
            stalled_worker_timeout=self._settings.stalled + PATIENCE_SECONDS,
            shutdown_graceful_timeout=self._settings.grace,
        )


_TAKE_RUN = """
UPDATE runs SET job_id = NULL, updated_at = now()
WHERE run_id = %(run_id)s AND job_id IS NOT DISTINCT FROM %(job_id)s AND status IN ('pending', 'running')
RETURNING thread_id, attempt
"""
