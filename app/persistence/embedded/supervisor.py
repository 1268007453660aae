"""Keeps an embedded server running for as long as anybody in this process needs it.

Several processes may use one data folder. The first to lock it runs the server; the others read how to reach it. When
that process leaves or is killed, the kernel gives the lock to the next one, which starts the server again under the
same address and password: clients see a broken connection for about a second and reconnect.
"""

from __future__ import annotations

import asyncio
import logging
import os
import threading
import time
from collections.abc import AsyncIterator
from concurrent.futures import Future
from contextlib import asynccontextmanager
from pathlib import Path

import psycopg

from app.errors import DatabaseError
from app.persistence.embedded.home import Access, Home, open_home
from app.persistence.embedded.server import Server

_log = logging.getLogger(__name__)

_POLL_SECONDS = 0.2
_JOIN_SECONDS = 60.0
_LONGEST_PAUSE_SECONDS = 10.0


@asynccontextmanager
async def embedded_postgres(data_dir: Path, *, durable: bool = True) -> AsyncIterator[str]:
    """Run, or share, the PostgreSQL server of ``data_dir`` while the block runs, and yield the URL of its database.

    The folder is made if need be. ``durable=False`` is for tests: faster, and a power cut may lose everything.
    Raises DatabaseError, in one line, if there can be no server here.
    """
    supervisor = _Supervisor(data_dir, durable=durable)
    supervisor.thread.start()
    try:
        yield await asyncio.to_thread(supervisor.url.result)
    finally:
        supervisor.leave.set()
        await asyncio.to_thread(supervisor.thread.join)


class _Supervisor:
    """A thread of its own: the kernel ends the server when the thread that started it ends."""

    def __init__(self, data_dir: Path, *, durable: bool) -> None:
        self.url: Future[str] = Future()
        self.leave = threading.Event()
        self.thread = threading.Thread(target=self._run, name="embedded-postgres", daemon=True)
        self._data_dir = data_dir
        self._durable = durable

    def _run(self) -> None:
        try:
            home = open_home(self._data_dir)
            keeper = _Keeper(home, durable=self._durable)
        except OSError as error:
            self.url.set_exception(_unusable(self._data_dir, error))
            return
        except DatabaseError as error:
            self.url.set_exception(error)
            return
        try:
            self._join(home, keeper)
            self._watch(keeper)
        finally:
            keeper.close()

    def _join(self, home: Home, keeper: _Keeper) -> None:
        deadline = time.monotonic() + _JOIN_SECONDS
        try:
            while not (access := keeper.keep() or _shared(home)):
                if time.monotonic() > deadline or self.leave.wait(_POLL_SECONDS):
                    raise DatabaseError(
                        f"The data folder {self._data_dir} is in use by {_owner(home)}, and its database does not answer"
                    )
            self.url.set_result(access.url())
        except OSError as error:
            self.url.set_exception(_unusable(self._data_dir, error))
        except DatabaseError as error:
            self.url.set_exception(error)

    def _watch(self, keeper: _Keeper) -> None:
        pause = _POLL_SECONDS
        while self.url.exception() is None and not self.leave.wait(pause):
            try:
                keeper.keep()
                pause = _POLL_SECONDS
            except (OSError, DatabaseError, psycopg.Error) as error:
                pause = min(pause * 2, _LONGEST_PAUSE_SECONDS)
                _log.error("the embedded PostgreSQL is down, next try in %.1f s: %s", pause, error)


class _Keeper:
    """Holds the lock of a home when it can get it, and then sees to it that the server runs."""

    def __init__(self, home: Home, *, durable: bool) -> None:
        self._home = home
        self._server = Server(home, durable=durable)
        self._lock: int | None = None
        self._access: Access | None = None

    def keep(self) -> Access | None:
        """Start the server if that is our part and it does not run. None if another process has that part."""
        if self._lock is None:
            self._lock = self._home.try_lock()
        if self._lock is None:
            return None
        if self._access is None or not self._server.running:
            if self._access is not None:
                _log.warning("the embedded PostgreSQL ended; starting it again")
            self._access = self._server.start()
        return self._access

    def close(self) -> None:
        if self._lock is not None:
            self._server.stop()
            os.close(self._lock)


def _shared(home: Home) -> Access | None:
    access = home.read_access()
    if access is not None:
        try:
            psycopg.connect(access.url(), connect_timeout=2).close()
        except psycopg.OperationalError:
            return None
    return access


def _owner(home: Home) -> str:
    access = home.read_access()
    return f"process {access.owner_pid}" if access else "another process"


def _unusable(data_dir: Path, error: OSError) -> DatabaseError:
    where = f" ({error.filename})" if error.filename else ""
    return DatabaseError(f"Cannot use the data folder {data_dir}: {error.strerror or error}{where}")
