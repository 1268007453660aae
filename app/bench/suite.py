"""All measurements of a compaction, one after the other, each bounded in time."""

from __future__ import annotations

import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace

import psycopg

from app.bench.arguments import SIZES
from app.bench.errand import Errand, ErrandFigures, measure_errand
from app.bench.hook import HookFigures, measure_hook
from app.bench.planning import PlanningFigures, measure_planning
from app.bench.storage import Growth, StorageFigures, measure_storage
from app.bench.timing import Effort
from app.config import Settings
from app.errors import DatabaseError
from app.persistence.database import Database, open_database
from app.persistence.schema import migrate
from app.persistence.scratch import scratch_database, scratch_folder


@dataclass(frozen=True, slots=True)
class Scope:
    """How much is measured: threads of these ``sizes`` (messages), and how thoroughly."""

    sizes: tuple[int, ...]
    hook: Effort
    planning: Effort
    growth: Growth


# 25 turns hold 100 updates of the messages: the delta mode writes one whole state among so many.
THOROUGH = Scope(SIZES, Effort(15, 5.0), Effort(5, 5.0), Growth(400, 25, 45.0))
QUICK = Scope((100, 1_000), Effort(5, 1.0), Effort(3, 1.0), Growth(40, 3, 4.0))


@dataclass(frozen=True, slots=True)
class Figures:
    """Everything that one run measured. ``seconds`` is how long it took."""

    hook: tuple[HookFigures, ...]
    planning: tuple[PlanningFigures, ...]
    storage: tuple[StorageFigures, ...]
    errand: tuple[ErrandFigures, ...]
    seconds: float


async def measure(settings: Settings, scope: Scope, say: Callable[[str], None]) -> Figures:
    """Measure all of it; ``say`` gets a line before each part.

    What needs a database gets one of its own, on the configured server or an embedded one in a folder of its own
    inside the data folder; both are gone afterwards. Raises DatabaseError.
    """
    start = time.monotonic()
    async with own_database(settings) as (own_settings, database):
        say(f"turns of a thread of {scope.growth.messages} messages, compacted and not")
        storage = await measure_storage(own_settings, database, scope.growth)
        say("an errand of 40 steps")
        errand = await measure_errand(own_settings, database, Errand())
    hook: list[HookFigures] = []
    planning: list[PlanningFigures] = []
    for size in scope.sizes:
        say(f"the hook on {size} messages")
        hook += await measure_hook(size, scope.hook)
    for size in scope.sizes:
        say(f"planning and rendering {size} messages")
        planning.append(await measure_planning(size, settings.summarization.policy, scope.planning))
    return Figures(
        tuple(hook), tuple(planning), tuple(storage), tuple(errand), round(time.monotonic() - start, 1)
    )


@asynccontextmanager
async def own_database(settings: Settings) -> AsyncIterator[tuple[Settings, Database]]:
    """A migrated database of our own, and the settings with a data folder of our own."""
    given = settings.database.url
    with scratch_folder(settings.data_dir) as folder:
        async with (
            scratch_database(given.get_secret_value() if given else None, folder) as url,
            open_database(url) as database,
        ):
            await migrate(database)
            try:
                yield replace(settings, data_dir=folder), database
            except psycopg.Error as error:
                reason = str(error).splitlines() or [type(error).__name__]
                raise DatabaseError(f"The database failed while it was measured: {reason[0]}") from error
