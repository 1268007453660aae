"""The files of a database server: made whole or not at all, and freed from a server that was left over."""

from __future__ import annotations

import os
import re
import shutil
import signal
import subprocess
import tempfile
import time
from contextlib import suppress
from pathlib import Path

from app.errors import DatabaseError
from app.persistence.embedded.home import USER, Home
from app.persistence.embedded.process import end_with_parent, environment, is_server_of

_LEFTOVER_SECONDS = 30.0
_REASON = re.compile(r"(?:FATAL|PANIC|error|fatal):\s+(.*)")


def make_cluster(home: Home, binaries: Path, password: str, *, durable: bool) -> None:
    """Make the files of a new server in ``home``, with ``password`` for its only user.

    Raises DatabaseError with the reason in one line, or OSError.
    """
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


def change_password(home: Home, binaries: Path, password: str) -> None:
    """Give the files of a server another password, for when the old one is lost. No server may run.

    Raises DatabaseError with the reason in one line, or OSError.
    """
    command = [str(binaries / "postgres"), "--single", "-D", str(home.cluster), "postgres"]
    statement = f"ALTER ROLE {USER} PASSWORD '{password}'\n"
    _run(home, command, f"Cannot use the database in {home.folder}", statement)


def end_leftover_server(home: Home) -> None:
    """End a server whose keeper is gone, and forget a process id that now belongs to somebody else.

    Only for the holder of the lock: then no process that works by the rules runs a server here, and one that
    was killed leaves a server which is about to end by itself. Raises DatabaseError if it does not.
    """
    pid_file = home.cluster / "postmaster.pid"
    try:
        pid = int(pid_file.read_text().split("\n", 1)[0])
    except (FileNotFoundError, ValueError):
        return
    deadline = time.monotonic() + _LEFTOVER_SECONDS
    while is_server_of(home.cluster, pid):
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGINT)
        if time.monotonic() > deadline:
            raise DatabaseError(f"The former database server of {home.folder}, process {pid}, does not end")
        time.sleep(0.05)
    pid_file.unlink(missing_ok=True)


def reasons(output: str) -> list[str]:
    """Why a program of PostgreSQL gave up, from what it printed: each reason in one line."""
    return _REASON.findall(output)


def _run_initdb(home: Home, binaries: Path, cluster: Path, password_file: Path, *, durable: bool) -> None:
    command = [str(binaries / "initdb"), "-D", str(cluster), "-U", USER, f"--pwfile={password_file}"]
    command += ["--auth=scram-sha-256", "--encoding=UTF8", "--locale=C", "--no-instructions"]
    command += ["--locale-provider=builtin", "--builtin-locale=C.UTF-8"]
    # Many rounds of hashing protect guessable passwords; ours is random, and each connection would pay.
    command += ["-c", "scram_iterations=1"]
    command += [] if durable else ["--no-sync"]
    _run(home, command, f"Cannot make a database in {home.folder}")


def _run(home: Home, command: list[str], failure: str, text: str = "") -> None:
    done = subprocess.run(
        command,
        input=text.encode(),
        capture_output=True,
        check=False,
        cwd="/",
        env=environment(),
        preexec_fn=end_with_parent(signal.SIGKILL),
        **home.account.popen,
    )
    if done.returncode != 0:
        output = (done.stderr + done.stdout).decode(errors="replace")
        found = reasons(output) or output.splitlines() or [f"status {done.returncode}"]
        raise DatabaseError(f"{failure}: {found[0]}")
