"""Which lines of a text match: plain text at once, a regular expression in a process that can be stopped."""

from __future__ import annotations

import json
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from itertools import islice
from pathlib import Path
from typing import Any

from app.errors import WorkspaceError

_WORKER = Path(__file__).with_name("regex_worker.py")
_WORKER_MEMORY = 512 * 1024 * 1024

Matcher = Callable[[str], list[int]]


def literal(query: str, *, ignore_case: bool, limit: int) -> Matcher:
    """Finds the indexes of the first ``limit`` lines that hold the query."""
    wanted = query.casefold() if ignore_case else query

    def find(text: str) -> list[int]:
        if not ignore_case and wanted not in text:
            return []
        lines = enumerate(text.split("\n"))
        found = (index for index, line in lines if wanted in (line.casefold() if ignore_case else line))
        return list(islice(found, limit))

    return find


@contextmanager
def regular_expression(query: str, *, ignore_case: bool, limit: int, seconds: float) -> Iterator[Matcher]:
    """Finds the indexes of the first ``limit`` lines in which the expression is found.

    The matcher raises TimeoutError once the block has lasted ``seconds``, WorkspaceError when the expression is
    not one or needs too much memory. Blocks.
    """
    task = {"pattern": query, "ignore_case": ignore_case, "limit": limit}
    limits = {"memory": _WORKER_MEMORY, "seconds": int(seconds) + 1}
    with _running(seconds) as ask:
        wrong = ask(json.dumps({**task, **limits}).encode() + b"\n")
        if wrong is not None:
            raise WorkspaceError(f"The query is not a regular expression: {wrong}.")

        def find(text: str) -> list[int]:
            data = text.encode()
            found: list[int] = ask(f"{len(data)}\n".encode() + data)
            return found

        yield find


@contextmanager
def _running(seconds: float) -> Iterator[Callable[[bytes], Any]]:
    """The worker process, killed at the end of the block or after so many seconds; a function that asks it."""
    worker = _start()
    overdue = threading.Event()

    def stop() -> None:
        overdue.set()
        worker.kill()

    timer = threading.Timer(seconds, stop)
    timer.start()
    try:
        yield lambda message: _exchange(worker, message, overdue)
    finally:
        timer.cancel()
        worker.kill()
        with suppress(BrokenPipeError):
            worker.communicate()


def _start() -> subprocess.Popen[bytes]:
    pipe, command = subprocess.PIPE, [sys.executable, "-I", "-S", str(_WORKER)]
    try:
        return subprocess.Popen(command, stdin=pipe, stdout=pipe, stderr=subprocess.DEVNULL)
    except OSError:
        raise WorkspaceError("Regular expressions cannot be used now; search for plain text.") from None


def _exchange(worker: subprocess.Popen[bytes], message: bytes, overdue: threading.Event) -> Any:
    assert worker.stdin is not None and worker.stdout is not None
    answer = b""
    with suppress(BrokenPipeError):
        worker.stdin.write(message)
        worker.stdin.flush()
        answer = worker.stdout.readline()
    if answer:
        return json.loads(answer)
    if overdue.is_set():
        raise TimeoutError
    raise WorkspaceError("The regular expression needs too much memory.")
