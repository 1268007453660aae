"""How much a thread takes, by kind."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

from psycopg_pool import AsyncConnectionPool

from app.errors import NotFound
from app.persistence.sizes import stored_bytes
from app.persistence.threads import ThreadStore
from app.ports import Workspaces


class Storage:
    """Counts what the database and the workspace hold of a thread."""

    def __init__(self, pool: AsyncConnectionPool[Any], threads: ThreadStore, workspaces: Workspaces) -> None:
        self._pool = pool
        self._threads = threads
        self._workspaces = workspaces

    async def of(self, owner: str, thread_id: str) -> dict[str, int]:
        """Bytes by kind: ``checkpoints, archive, events, records, workspace``. Raises NotFound."""
        if await self._threads.get(thread_id, owner) is None:
            raise NotFound(f"There is no thread {thread_id}")
        stored = await stored_bytes(self._pool, thread_id)
        return {**asdict(stored), "workspace": await self._workspaces.size(thread_id)}
