"""A database that goes away and comes back: a relay in front of the real one, which a test cuts."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from urllib.parse import quote

from psycopg.conninfo import conninfo_to_dict


class Relay:
    """Listens on loopback and passes everything on to the database at ``target``."""

    def __init__(self, target: str) -> None:
        parts = {key: str(value) for key, value in conninfo_to_dict(target).items() if value is not None}
        self._host, self._port = parts["host"], parts.get("port", "5432")
        self._account = f"{quote(parts['user'])}:{quote(parts.get('password', ''), safe='')}"
        self._name = parts["dbname"]
        self._server: asyncio.Server | None = None
        self._own_port = 0
        self._open: set[asyncio.StreamWriter] = set()

    @property
    def url(self) -> str:
        return f"postgresql://{self._account}@127.0.0.1:{self._own_port}/{self._name}"

    async def restore(self) -> None:
        """The database is there again, at the same address."""
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", self._own_port)
        self._own_port = self._server.sockets[0].getsockname()[1]

    async def cut(self) -> None:
        """The database is gone: connections break, new ones are refused."""
        if self._server:
            self._server.close()
        for writer in tuple(self._open):
            writer.transport.abort()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if self._host.startswith("/"):
            path = f"{self._host}/.s.PGSQL.{self._port}"
            behind, ahead = await asyncio.open_unix_connection(path)
        else:
            behind, ahead = await asyncio.open_connection(self._host, int(self._port))
        ends = {writer, ahead}
        self._open |= ends
        try:
            await asyncio.gather(_copy(reader, ahead), _copy(behind, writer))
        finally:
            self._open -= ends
            for end in ends:
                end.close()


async def _copy(source: asyncio.StreamReader, sink: asyncio.StreamWriter) -> None:
    with suppress(OSError):
        while data := await source.read(65536):
            sink.write(data)
            await sink.drain()
    sink.close()


@asynccontextmanager
async def relayed(target: str) -> AsyncIterator[Relay]:
    relay = Relay(target)
    await relay.restore()
    try:
        yield relay
    finally:
        await relay.cut()
