"""The database may be away for a moment (a restart, a failover). What must not be lost over that is tried again."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable
from typing import TypeVar

import psycopg
from psycopg_pool import PoolClosed

T = TypeVar("T")

PATIENCE_SECONDS = 60.0
PAUSE_SECONDS = 0.5

log = logging.getLogger(__name__)


def is_outage(error: BaseException | None) -> bool:
    """The database went away or does not answer, as itself or as the cause of another error. Not: we closed it."""
    if isinstance(error, PoolClosed) or error is None:
        return False
    return isinstance(error, (psycopg.OperationalError, psycopg.InterfaceError)) or is_outage(error.__cause__)


async def through_outage(call: Callable[[], Awaitable[T]], patience_s: float = PATIENCE_SECONDS) -> T:
    """What ``call()`` returns; while the database is away it is called again, for ``patience_s`` seconds at most.

    It must be safe to repeat: it may have been done although its answer was lost.
    """
    give_up_at = time.monotonic() + patience_s
    cancellations = _cancellations()
    while True:
        try:
            return await call()
        except Exception as error:
            if not is_outage(error) or time.monotonic() >= give_up_at:
                raise
            if _cancellations() > cancellations:
                # A driver that is cancelled in mid-query may report a broken connection instead.
                raise asyncio.CancelledError from error
            log.warning("the database is away, trying again: %s", one_line(error))
        await asyncio.sleep(PAUSE_SECONDS)


def _cancellations() -> int:
    task = asyncio.current_task()
    return task.cancelling() if task else 0


def one_line(error: BaseException) -> str:
    """An error of the database, or the one behind it, for the log."""
    cause = error.__cause__ or error
    return f"{type(cause).__name__}: {' '.join(str(cause).split())}"
