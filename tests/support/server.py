"""A PostgreSQL server of a test's own, which goes away and comes back as a test wants."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from app.persistence.embedded.home import open_home
from app.persistence.embedded.server import Server


class OwnServer:
    """The server of ``folder``, which the account of an embedded server must be able to enter."""

    def __init__(self, folder: Path) -> None:
        self._home = open_home(folder)
        self._server = Server(self._home, durable=False)
        self.url = self._server.start().url()

    def stop(self) -> None:
        """Connections end, and new ones are refused."""
        self._server.stop()

    def start(self) -> None:
        """It is there again, at the same address."""
        self._server.start()

    def freeze(self) -> None:
        """Connections stay, and nobody answers on them, as behind a network that swallows everything."""
        self._signal(signal.SIGSTOP)

    def thaw(self) -> None:
        self._signal(signal.SIGCONT)

    def _signal(self, number: signal.Signals) -> None:
        postmaster = int((self._home.cluster / "postmaster.pid").read_text().split()[0])
        for pid in (postmaster, *_children(postmaster)):
            os.kill(pid, number)


@contextmanager
def own_server(folder: Path) -> Iterator[OwnServer]:
    server = OwnServer(folder)
    try:
        yield server
    finally:
        server.stop()


def _children(parent: int) -> list[int]:
    listed = Path(f"/proc/{parent}/task/{parent}/children").read_text()
    return [int(pid) for pid in listed.split()]
