"""Keeps an embedded server running for as long as anybody in this process needs it.

Several processes may use one data folder. The first to lock it keeps the server; the others read how to
reach it. When the keeper leaves or is killed, the kernel gives the lock to the next one, which starts the
server again with the same address and password: clients see their connections break and can connect again a
second later.
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
    """Run, or share, the PostgreSQL server of ``data_dir`` while the block runs; yields its database's URL.

    The folder is made if need be. ``durable=False`` is for tests: faster, but a power cut may lose all.
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
    """A thread of its own, because the kernel ends the server when the thread that started it ends."""

    def __init__(self, data_dir: Path, *, durable: bool) -> None:
        self.url: Future[str] = Future()
        self.leave = threading.Event()
        self.thread = threading.Thread(target=self._run, name="embedded-postgres", daemon=True)
        self._data_dir = data_dir
        self._durable = durable

    def _run(self) -> None:
        try:
            keeper = _Keeper(open_home(self._data_dir), durable=self._durable)
        except (OSError, DatabaseError) as error:
            self.url.set_exception(self._explained(error))
            return
        try:
            try:
                access = self._join(keeper)
            except Exception as error:  # noqa: BLE001 (nobody else would hear of it: the caller waits for the URL)
                self.url.set_exception(self._explained(error))
                return
            self.url.set_result(access.url())
            self._watch(keeper)
        finally:
            keeper.close()

    def _join(self, keeper: _Keeper) -> Access:
        deadline = time.monotonic() + _JOIN_SECONDS
        while (access := keeper.keep() or keeper.share()) is None:
            if self.leave.wait(_POLL_SECONDS):
                raise DatabaseError("Stopped before the embedded PostgreSQL was ready")
            if time.monotonic() > deadline:
                raise DatabaseError(
                    f"The data folder {self._data_dir} is in use by {keeper.other()}, "
                    "and its database does not answer"
                )
        return access

    def _watch(self, keeper: _Keeper) -> None:
        pause = _POLL_SECONDS
        while not self.leave.wait(pause):
            try:
                keeper.keep()
                pause = _POLL_SECONDS
            except (OSError, DatabaseError, psycopg.Error) as error:
                pause = min(pause * 2, _LONGEST_PAUSE_SECONDS)
                _log.error("the embedded PostgreSQL is down, next try in %.1f s: %s", pause, error)

    def _explained(self, error: Exception) -> Exception:
        match error:
            case OSError():
                where = f" ({error.filename})" if error.filename else ""
                reason = error.strerror or str(error)
                return DatabaseError(f"Cannot use the data folder {self._data_dir}: {reason}{where}")
            case psycopg.Error():
                return DatabaseError(f"The embedded PostgreSQL does not answer: {str(error).splitlines()[0]}")
            case _:
                return error


class _Keeper:
    """Holds the lock of a home when it can get it, and then sees to it that the server runs."""

    def __init__(self, home: Home, *, durable: bool) -> None:
        self._home = home
        self._server = Server(home, durable=durable)
        self._lock: int | None = None
        self._access: Access | None = None
        self._shares = False

    def keep(self) -> Access | None:
        """Start the server if that is our part and it does not run. None if another process has that part."""
        if self._lock is None:
            self._lock = self._home.try_lock()
        if self._lock is None:
            return None
        if self._access is None or not self._server.running:
            if self._access is not None:
                _log.warning("the embedded PostgreSQL ended; starting it again")
            elif self._shares:
                _log.warning("the process that kept the embedded PostgreSQL is gone; keeping it here now")
            self._access = self._server.start()
        return self._access

    def share(self) -> Access | None:
        """How to reach the server of another process, if it answers."""
        access = self._home.read_access()
        if access is None or access.home != str(self._home.folder):
            return None
        try:
            psycopg.connect(access.url(), connect_timeout=2).close()
        except psycopg.OperationalError:
            return None
        self._shares = True
        return access

    def other(self) -> str:
        access = self._home.read_access()
        return f"process {access.keeper_pid}" if access else "another process"

    def close(self) -> None:
        if self._lock is not None:
            self._server.stop()
            os.close(self._lock)
