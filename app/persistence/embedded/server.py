"""One PostgreSQL server process over the files of a home: made, started, awaited, stopped."""

from __future__ import annotations

import ctypes
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import psycopg
from psycopg import sql

from app.errors import DatabaseError
from app.persistence.embedded.binaries import find_binaries
from app.persistence.embedded.home import DATABASE, USER, Access, Home

_START_SECONDS = 120.0
_LEFTOVER_SECONDS = 30.0
_STOP_SECONDS = 30.0
_POLL_SECONDS = 0.02
_LOG_LIMIT_BYTES = 4 * 1024 * 1024
_PR_SET_PDEATHSIG = 1

# The log may be read by whoever helps the operator, so nothing that carries row values goes into it: errors of
# statements are reported to the client that sent them.
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
_REASON = re.compile(r"(?:FATAL|PANIC|error|fatal):\s+(.*)")

_libc = ctypes.CDLL(None) if sys.platform == "linux" else None


class Server:
    """A PostgreSQL server of this process. Only the holder of the home's lock may make one.

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
        _end_leftover(home)
        self._access = access = home.claim_access()
        binaries = find_binaries(home.account, home.folder)
        if not home.cluster.is_dir():
            _make_cluster(home, binaries, access.password, durable=self._durable)
        give_up = time.monotonic() + _LEFTOVER_SECONDS
        while (reason := self._try_start(binaries, access)) is not None:
            if not _STILL_ENDING.search(reason) or time.monotonic() > give_up:
                raise DatabaseError(f"The embedded PostgreSQL does not start: {reason} (log: {home.log})")
            time.sleep(0.5)
        _make_database(access)
        return access

    def stop(self) -> None:
        """Stop the server: its clients are disconnected, its files are left clean."""
        process = self._process
        if process is None:
            return
        # SIGINT is PostgreSQL's fast shutdown; SIGQUIT gives up tidiness, but not data.
        for number, seconds in ((signal.SIGINT, _STOP_SECONDS), (signal.SIGQUIT, 5.0), (signal.SIGKILL, 5.0)):
            try:
                process.send_signal(number)
                process.wait(seconds)
            except subprocess.TimeoutExpired:
                continue
            break
        if self._access is not None:
            shutil.rmtree(self._access.socket, ignore_errors=True)

    def _try_start(self, binaries: Path, access: Access) -> str | None:
        for file in Path(access.socket).iterdir():
            file.unlink()
        log_start = self._spawn(binaries, access)
        process = self._process
        assert process is not None
        deadline = time.monotonic() + _START_SECONDS
        while not _is_ready(self._home, process.pid):
            if process.poll() is not None:
                return self._reason(log_start) or f"it ended with status {process.returncode}"
            if time.monotonic() > deadline:
                self.stop()
                return f"it was not ready after {_START_SECONDS:g} s"
            time.sleep(_POLL_SECONDS)
        return None

    def _spawn(self, binaries: Path, access: Access) -> int:
        home = self._home
        settings = _SETTINGS | ({} if self._durable else _FAST_AND_LOSE)
        settings["unix_socket_directories"] = '"' + access.socket.replace('"', '""') + '"'
        options = [part for name, value in settings.items() for part in ("-c", f"{name}={value}")]
        if home.log.exists() and home.log.stat().st_size > _LOG_LIMIT_BYTES:
            home.log.replace(home.log.with_suffix(".log.1"))
        with home.log.open("ab") as log:
            self._process = subprocess.Popen(
                [str(binaries / "postgres"), "-D", str(home.cluster), *options],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                cwd="/",
                env=_environment(),
                # A Ctrl-C in the terminal is for the app, which then stops the server when it is done with it.
                start_new_session=True,
                preexec_fn=_end_with_parent(signal.SIGINT),
                **home.account.popen,
            )
            return log.tell()

    def _reason(self, log_start: int) -> str | None:
        with self._home.log.open("rb") as log:
            log.seek(log_start)
            found = _REASON.findall(log.read().decode(errors="replace"))
        if found:
            return str(found[-1])
        # A full disk has no room for the line that would say so.
        free = shutil.disk_usage(self._home.folder).free
        return os.strerror(28) if free < 16 * 1024 * 1024 else None


def _is_ready(home: Home, pid: int) -> bool:
    try:
        lines = (home.cluster / "postmaster.pid").read_text().splitlines()
    except FileNotFoundError:
        return False
    return len(lines) >= 8 and lines[0] == str(pid) and lines[7].strip() == "ready"


def _end_leftover(home: Home) -> None:
    """End a server whose owner is gone, and remove a process id that now belongs to somebody else.

    The lock is ours, so no process that works by the rules runs a server here any more; one that was killed leaves
    a server which is about to end.
    """
    pid_file = home.cluster / "postmaster.pid"
    try:
        pid = int(pid_file.read_text().split("\n", 1)[0])
    except (FileNotFoundError, ValueError):
        return
    deadline = time.monotonic() + _LEFTOVER_SECONDS
    while _is_server(pid, home.cluster):
        os.kill(pid, signal.SIGINT)
        if time.monotonic() > deadline:
            raise DatabaseError(f"The former database server of {home.folder}, process {pid}, does not end")
        time.sleep(0.1)
    pid_file.unlink(missing_ok=True)


def _is_server(pid: int, cluster: Path) -> bool:
    try:
        arguments = Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")
    except OSError:
        if sys.platform == "linux":
            return False
        listed = subprocess.run(["ps", "-p", str(pid), "-o", "args="], capture_output=True, check=False)
        return f"-D {cluster}".encode() in listed.stdout
    return os.fsencode(cluster) in arguments


def _make_cluster(home: Home, binaries: Path, password: str, *, durable: bool) -> None:
    for unfinished in home.folder.glob("new-*"):
        shutil.rmtree(unfinished)
    # Renamed when complete, so that an interrupted start never leaves half a cluster that looks like one.
    workplace = Path(tempfile.mkdtemp(prefix="new-", dir=home.folder))
    try:
        workplace.chmod(0o711)
        password_file, cluster = workplace / "password", workplace / "cluster"
        password_file.touch(0o600)
        password_file.write_text(password)
        cluster.mkdir(0o700)
        home.account.own(password_file)
        home.account.own(cluster)
        _run_initdb(home, binaries, cluster, password_file, durable=durable)
        cluster.rename(home.cluster)
    finally:
        shutil.rmtree(workplace, ignore_errors=True)


def _run_initdb(home: Home, binaries: Path, cluster: Path, password_file: Path, *, durable: bool) -> None:
    command = [str(binaries / "initdb"), "-D", str(cluster), "-U", USER, f"--pwfile={password_file}"]
    command += ["--auth=scram-sha-256", "--encoding=UTF8", "--locale=C", "--no-instructions"]
    command += ["--locale-provider=builtin", "--builtin-locale=C.UTF-8"]
    # Many rounds of hashing protect guessable passwords; ours is random, and each connection would pay for them.
    command += ["-c", "scram_iterations=1"]
    command += [] if durable else ["--no-sync"]
    done = subprocess.run(
        command,
        capture_output=True,
        check=False,
        cwd="/",
        env=_environment(),
        preexec_fn=_end_with_parent(signal.SIGKILL),
        **home.account.popen,
    )
    if done.returncode != 0:
        output = (done.stderr + done.stdout).decode(errors="replace")
        found = (
            _REASON.findall(output) or output.splitlines() or [f"initdb ended with status {done.returncode}"]
        )
        raise DatabaseError(f"Cannot create a database in {home.folder}: {found[0]}")


def _make_database(access: Access) -> None:
    with psycopg.connect(access.url("postgres"), autocommit=True) as connection:
        if not connection.execute("SELECT FROM pg_database WHERE datname = %s", (DATABASE,)).rowcount:
            connection.execute(sql.SQL("CREATE DATABASE {}").format(sql.Identifier(DATABASE)))


def _environment() -> dict[str, str]:
    # Nothing else of ours: the server may run as another account, and API keys are none of its business.
    kept = ("PATH", "LD_LIBRARY_PATH", "DYLD_LIBRARY_PATH")
    return {name: os.environ[name] for name in kept if name in os.environ} | {"LC_ALL": "C"}


def _end_with_parent(number: signal.Signals) -> Callable[[], None]:
    """What a child does before it becomes another program: ask the kernel for a signal when its parent is gone.

    Runs between fork and exec of a program with threads, so it does as little as possible.
    """
    parent = os.getpid()

    def ask() -> None:
        if _libc is not None:
            _libc.prctl(_PR_SET_PDEATHSIG, int(number))
            if os.getppid() != parent:
                os._exit(1)

    return ask
