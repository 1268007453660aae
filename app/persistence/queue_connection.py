"""Procrastinate's way to the database, made to outlive a database that is away for a moment.

Left to itself a worker ends, and gives up its runs, when one of its statements or its listening connection fails.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterable
from typing import Any

import procrastinate
import psycopg
from procrastinate.connector import Notify
from procrastinate.exceptions import ConnectorException

from app.persistence.outage import through_outage

RECONNECT_SECONDS = 1.0

log = logging.getLogger(__name__)


class QueueConnector(procrastinate.PsycopgConnector):
    """Repeats the worker's statements through an outage, and listens again after one.

    A repeated fetch may leave a job fetched that nobody executes: ``RunQueue.return_abandoned`` finds it.
    """

    async def execute_query_async(self, query: Any, **arguments: Any) -> None:
        call = super().execute_query_async
        try:
            await through_outage(lambda: call(query, **arguments))
        except ConnectorException as error:
            if not isinstance(error.__cause__, psycopg.errors.RaiseException):
                raise
            # Procrastinate's functions raise this for a job that is not there: it was given to another worker.
            log.info("a job was not there any more: %s", error.__cause__.diag.message_primary)

    async def execute_query_one_async(self, query: Any, **arguments: Any) -> dict[str, Any]:
        call = super().execute_query_one_async
        return await through_outage(lambda: call(query, **arguments))

    async def execute_query_all_async(self, query: Any, **arguments: Any) -> list[dict[str, Any]]:
        call = super().execute_query_all_async
        return await through_outage(lambda: call(query, **arguments))

    async def listen_notify(self, on_notification: Notify, channels: Iterable[str]) -> None:
        while True:
            try:
                await super().listen_notify(on_notification=on_notification, channels=channels)
            except ConnectorException as error:
                log.warning("lost the connection that listens for jobs: %s", type(error.__cause__).__name__)
            await asyncio.sleep(RECONNECT_SECONDS)
