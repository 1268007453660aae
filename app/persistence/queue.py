"""The queue of runs: procrastinate jobs on the same PostgreSQL. One job per run, ``lock`` = thread id, so that the
runs of a thread are executed one at a time and in the order in which they were admitted."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

import procrastinate
from procrastinate import jobs, retry
from procrastinate.types import TimeDeltaParams
from psycopg import AsyncConnection
from psycopg_pool import AsyncConnectionPool

QUEUE = "runs"
TASK = "threadkeep.execute_run"
RESTART_SECONDS = 1.0

log = logging.getLogger(__name__)


class HandBack(Exception):
    """Raised by the executor when its worker is draining: the job goes back to the queue at once."""


class _RetryHandBack(retry.BaseRetryStrategy):
    def get_retry_decision(self, *, exception: BaseException, job: jobs.Job) -> retry.RetryDecision | None:
        return retry.RetryDecision(retry_in={"seconds": 0}) if isinstance(exception, HandBack) else None


@dataclass(frozen=True, slots=True)
class WorkerSettings:
    """``concurrency``: runs at once in this process. Seconds: ``heartbeat`` of a worker, ``stalled`` = silent for so
    long counts as dead, ``grace`` = how long a stopping worker lets its runs finish."""

    concurrency: int = 16
    heartbeat: float = 5.0
    stalled: float = 20.0
    grace: float = 10.0


class RunQueue:
    """Defers runs and works them off. ``execute`` gets a run id and never raises but for HandBack."""

    def __init__(
        self,
        pool: AsyncConnectionPool[Any],
        execute: Callable[[str], Awaitable[None]],
        settings: WorkerSettings,
    ) -> None:
        self._pool = pool
        self._settings = settings
        self._app = procrastinate.App(connector=procrastinate.PsycopgConnector())
        self._task = self._app.task(name=TASK, queue=QUEUE, retry=_RetryHandBack())(_task(execute))
        self._workers: list[asyncio.Task[None]] = []

    async def open(self) -> None:
        await self._app.open_async(self._pool)

    async def defer(
        self, connection: AsyncConnection[Any], run_id: str, thread_id: str, delay_s: float = 0.0
    ) -> int:
        """Queue a run inside the caller's transaction, to be started no sooner than in ``delay_s`` seconds. Returns
        the job id."""
        later: TimeDeltaParams | None = {"milliseconds": int(delay_s * 1000)} if delay_s else None
        # Runs that wait for their time do not hold up those that come meanwhile.
        configured = self._task.configure(
            lock=thread_id, connection=connection, schedule_in=later, priority=-1 if later else 0
        )
        return await configured.defer_async(run_id=run_id)

    async def abort(self, job_id: int) -> None:
        """Cancel the executing task of a job, on whichever worker it runs."""
        await self._app.job_manager.cancel_job_by_id_async(job_id, abort=True)

    async def requeue(self, run_id: str, thread_id: str) -> int:
        """Queue a run again whose job was lost. Returns the new job id."""
        return await self._task.configure(lock=thread_id).defer_async(run_id=run_id)

    async def retry_stalled(self) -> int:
        """Return the jobs of dead workers to the queue. Returns how many."""
        stalled = list(
            await self._app.job_manager.get_stalled_jobs(seconds_since_heartbeat=self._settings.stalled)
        )
        for job in stalled:
            log.warning(
                "the worker of run %s is gone; the run is queued again", job.task_kwargs.get("run_id")
            )
            assert job.id is not None  # it comes from the table
            await self._app.job_manager.retry_job_by_id_async(job.id, retry_at=datetime.now(UTC))
        return len(stalled)

    def start(self) -> None:
        """Work in this process until ``stop``."""
        self._workers = [asyncio.create_task(self._work(), name="run worker")]

    async def stop(self) -> None:
        """Take no new run, let the running ones finish within the grace time, hand the others back."""
        for worker in self._workers:
            worker.cancel()
        for worker in self._workers:
            with suppress(asyncio.CancelledError):
                await worker

    async def _work(self) -> None:
        while True:
            try:
                await self._app.run_worker_async(
                    queues=[QUEUE],
                    concurrency=self._settings.concurrency,
                    install_signal_handlers=False,
                    delete_jobs=jobs.DeleteJobCondition.ALWAYS,
                    update_heartbeat_interval=self._settings.heartbeat,
                    stalled_worker_timeout=self._settings.stalled,
                    shutdown_graceful_timeout=self._settings.grace,
                )
            except Exception as error:  # noqa: BLE001 - whatever ended the worker (a database restart), it must work again
                log.warning(
                    "the run worker stopped (%s: %s) and is started again", type(error).__name__, error
                )
            await asyncio.sleep(RESTART_SECONDS)


def _task(execute: Callable[[str], Awaitable[None]]) -> Callable[..., Awaitable[None]]:
    async def execute_run(run_id: str) -> None:
        await execute(run_id)

    return execute_run
