"""What a server's process writes to its error output: read, so that it is never full, and forgotten but for the end."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TextIO

_KEPT_BYTES = 2000


class ErrorOutput:
    """The end of what the processes of one server wrote. For one event loop."""

    def __init__(self) -> None:
        self._end = b""
        self._readers: set[int] = set()

    @contextmanager
    def stream(self) -> Iterator[TextIO]:
        """A stream for one process to write to."""
        self._end = b""
        reading, writing = os.pipe()
        os.set_blocking(reading, False)
        self._readers.add(reading)
        asyncio.get_running_loop().add_reader(reading, self._read, reading)
        try:
            with os.fdopen(writing, "w") as stream:
                yield stream
        finally:
            # What the process wrote last may not have been read yet.
            self._read(reading)
            self._stop(reading)

    def last_line(self) -> str:
        """The last line that is not empty."""
        lines = [line for line in self._end.decode(errors="replace").splitlines() if line.strip()]
        return lines[-1].strip() if lines else ""

    def close(self) -> None:
        for reading in tuple(self._readers):
            self._stop(reading)

    def _read(self, reading: int) -> None:
        if reading not in self._readers:
            return
        try:
            data = os.read(reading, 65_536)
        except BlockingIOError:
            return
        if data:
            self._end = (self._end + data)[-_KEPT_BYTES:]
        else:
            self._stop(reading)

    def _stop(self, reading: int) -> None:
        if reading in self._readers:
            self._readers.discard(reading)
            asyncio.get_running_loop().remove_reader(reading)
            os.close(reading)
