"""The database of a process: found or started, and migrated."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import replace

from app.config import Settings
from app.persistence.database import Database, open_database
from app.persistence.embedded import embedded_postgres
from app.persistence.schema import migrate


@asynccontextmanager
async def prepared_database(settings: Settings) -> AsyncIterator[Database]:
    """The configured database, or the embedded one, migrated. Raises DatabaseError."""
    async with AsyncExitStack() as stack:
        url = settings.database.url
        address = (
            url.get_secret_value()
            if url
            else await stack.enter_async_context(embedded_postgres(settings.data_dir))
        )
        database = await stack.enter_async_context(
            open_database(
                address,
                min_size=settings.database.pool_min_size,
                max_size=settings.database.pool_max_size,
            )
        )
        await migrate(database)
        yield database if url else replace(database, label=f"embedded PostgreSQL in {settings.data_dir}")
