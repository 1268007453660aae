"""One PostgreSQL server process: started, awaited, stopped."""

from __future__ import annotations

import errno
import os
import re
import shutil
import signal
import subprocess
import time
from pathlib import Path

import psycopg
from psycopg import sql

from app.errors import DatabaseError
from app.persistence.embedded.binaries import find_binaries
from app.persistence.embedded.cluster import change_password, end_leftover_server, make_cluster, reasons
from app.persistence.embedded.home import DATABASE, Access, Home
from app.persistence.embedded.process import end_with_parent, environment

_READY_SECONDS = 120.0
_RETRY_SECONDS = 30.0
_STOP_SECONDS = 30.0
_POLL_SECONDS = 0.02
_LOG_LIMIT_BYTES = 4 * 1024 * 1024
# The size of one file of the write-ahead log: with less than that free no server starts.
_LEAST_FREE_BYTES = 16 * 1024 * 1024

# The log is for whoever helps the operator, so nothing that carries the values of rows goes into it: errors
# of statements are told to the client that sent them.
_SETTINGS = {
    "listen_addresses": "",
    "port": "5432",
    "max_connections": "200",
    "shared_buffers": "128MB",
    "wal_level": "minimal",
    "max_wal_senders": "0",
    "jit": "off",
    "io_method": "sync",
    "max_parallel_workers_per_gather": "0",
    "timezone": "UTC",
    "log_timezone": "UTC",
    "log_min_messages": "log",
    "log_min_error_statement": "panic",
    "log_checkpoints": "off",
    "cluster_name": "threadkeep",
}
_FAST_AND_LOSE = {"fsync": "off", "synchronous_commit": "off", "full_page_writes": "off"}
# What a server says when the processes of the one before it are not quite gone.
_STILL_ENDING = re.compile(r"pre-existing shared memory block|lock file .* already exists")


class Server:
    """A PostgreSQL server of this process. Only the holder of the home's lock may start one.

    ``durable=False`` gives up the safety of the data for speed, for tests.
    """

    def __init__(self, home: Home, *, durable: bool) -> None:
        self._home = home
        self._durable = durable
        self._process: subprocess.Popen[bytes] | None = None
        self._access: Access | None = None

    @property
    def running(self) -> bool:
        return self._process is not None and self._process.poll() is None

    def start(self) -> Access:
        """Start the server and wait until it answers; the calling thread must outlive the server.

        Raises DatabaseError with the reason in one line, or OSError.
        """
        home = self._home
        end_leftover_server(home)
        last = home.read_access()
        self._access = access = home.claim_access()
        binaries = find_binaries(home.account, home.folder)
        if not home.cluster.is_dir():
            make_cluster(home, binaries, access.password, durable=self._durable)
        elif last is None:
            change_password(home, binaries, access.password)
        give_up = time.monotonic() + _RETRY_SECONDS
        while (reason := self._try_start(binaries, access)) is not None:
            if not _STILL_ENDING.search(reason) or time.monotonic() > give_up:
                raise DatabaseError(f"The embedded PostgreSQL does not start: {reason} (log: {home.log})")
            time.sleep(0.5)
        _make_database(access)
        return access

    def stop(self) -> None:
        """Stop the server: its clients are disconnected, its files are left clean."""
        if self._process is not None:
            _end(self._process)
        if self._access is not None:
            shutil.rmtree(self._access.socket, ignore_errors=True)

    def _try_start(self, binaries: Path, access: Access) -> str | None:
        for file in Path(access.socket).iterdir():
            file.unlink()
        process, log_start = self._spawn(binaries, access)
        self._process = process
        deadline = time.monotonic() + _READY_SECONDS
        while not _is_ready(self._home, process.pid):
            if process.poll() is not None:
                return self._reason(log_start) or f"it ended with status {process.returncode}"
            if time.monotonic() > deadline:
                _end(process)
                return f"it was not ready after {_READY_SECONDS:g} s"
            time.sleep(_POLL_SECONDS)
        return None

    def _spawn(self, binaries: Path, access: Access) -> tuple[subprocess.Popen[bytes], int]:
        home = self._home
        settings = _SETTINGS | ({} if self._durable else _FAST_AND_LOSE)
        settings["unix_socket_directories"] = '"' + access.socket.replace('"', '""') + '"'
        options = [part for name, value in settings.items() for part in ("-c", f"{name}={value}")]
        if home.log.exists() and home.log.stat().st_size > _LOG_LIMIT_BYTES:
            home.log.replace(home.log.with_suffix(".log.1"))
        with home.log.open("ab") as log:
            home.share(home.log)
            process = subprocess.Popen(
                [str(binaries / "postgres"), "-D", str(home.cluster), *options],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                cwd="/",
                env=environment(),
                # A Ctrl-C in the terminal is for the app, which stops the server when it is done with it.
                start_new_session=True,
                preexec_fn=end_with_parent(signal.SIGINT),
                **home.account.popen,
            )
            return process, log.tell()

    def _reason(self, log_start: int) -> str | None:
        with self._home.log.open("rb") as log:
            log.seek(log_start)
            found = reasons(log.read().decode(errors="replace"))
        if found:
            return found[-1]
        # A full disk has no room for the line that would say so.
        free = shutil.disk_usage(self._home.folder).free
        return os.strerror(errno.ENOSPC) if free < _LEAST_FREE_BYTES else None


def _is_ready(home: Home, pid: int) -> bool:
    try:
        lines = (home.cluster / "postmaster.pid").read_text().splitlines()
    except FileNotFoundError:
        return False
    return len(lines) >= 8 and lines[0] == str(pid) and lines[7].strip() == "ready"


def _end(process: subprocess.Popen[bytes]) -> None:
    # SIGINT is PostgreSQL's fast shutdown; SIGQUIT gives up tidiness, but no data.
    for number, seconds in ((signal.SIGINT, _STOP_SECONDS), (signal.SIGQUIT, 5.0), (signal.SIGKILL, 5.0)):
        process.send_signal(number)
        try:
            process.wait(seconds)
        except subprocess.TimeoutExpired:
            continue
        return


def _make_database(access: Access) -> None:
    with psycopg.connect(access.url("postgres"), autocommit=True) as connection:
        if not connection.execute("SELECT FROM pg_database WHERE datname = %s", (DATABASE,)).rowcount:
            connection.execute(sql.SQL("CREATE DATABASE {}").format(sql.Identifier(DATABASE)))
