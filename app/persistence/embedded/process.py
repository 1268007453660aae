"""What a child process of ours gets from us, and whether a process is a server of ours."""

from __future__ import annotations

import ctypes
import os
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

_PR_SET_PDEATHSIG = 1
_libc = ctypes.CDLL(None) if sys.platform == "linux" else None


def environment() -> dict[str, str]:
    """The environment of PostgreSQL: it may run as another account, and API keys are none of its business."""
    kept = ("PATH", "LD_LIBRARY_PATH", "DYLD_LIBRARY_PATH")
    return {name: os.environ[name] for name in kept if name in os.environ} | {"LC_ALL": "C"}


def end_with_parent(number: signal.Signals) -> Callable[[], None]:
    """What a child does before it becomes another program: ask for signal ``number`` when its parent ends.

    Parent means the thread that starts it. This runs between fork and exec of a program with threads, so it
    does as little as possible. Only Linux can do it; elsewhere the next start ends a server left over.
    """
    parent = os.getpid()

    def ask() -> None:
        if _libc is not None:
            _libc.prctl(_PR_SET_PDEATHSIG, int(number))
            if os.getppid() != parent:
                os._exit(1)

    return ask


def is_server_of(cluster: Path, pid: int) -> bool:
    """Whether process ``pid`` is a live PostgreSQL server of the files in ``cluster``.

    A process id alone proves nothing: it may have gone to another program, or to a zombie nobody collects.
    """
    if sys.platform == "linux":
        try:
            arguments = Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")
        except OSError:
            return False
        return os.fsencode(cluster) in arguments
    listed = subprocess.run(["ps", "-p", str(pid), "-o", "args="], capture_output=True, check=False)
    return f"-D {cluster} ".encode() in listed.stdout
