"""What owners may use, as ``limits`` of the config says: requests, runs at a time, tokens of a day, compactions."""

from __future__ import annotations

import math
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any, TypeVar

from limits import RateLimitItemPerMinute
from limits.aio.storage import MemoryStorage
from limits.aio.strategies import SlidingWindowCounterRateLimiter

from app.config import LimitsSettings
from app.errors import RateLimited
from app.persistence.accounts import AccountStore
from app.services.accounts.budget import CURRENT, TokenBudget

# A place among the runs at work becomes free when one of them ends, whenever that is.
RUNS_RETRY_S = 5
_MINUTE_S = 60.0

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Window:
    """How many requests an owner has left, and in how many seconds there is one more at the earliest."""

    limit: int
    remaining: int
    reset_s: int


class Limits:
    """Raises RateLimited for what is too much. ``now`` is the time of UTC."""

    def __init__(
        self,
        settings: LimitsSettings,
        store: AccountStore,
        now: Callable[[], datetime] = lambda: datetime.now(UTC),
    ) -> None:
        self._settings = settings
        self._store = store
        self._now = now
        # In this process alone: a count in the database would cost each request more than the request itself.
        self._windows = SlidingWindowCounterRateLimiter(MemoryStorage())
        per_minute = settings.requests_per_minute
        self._requests = RateLimitItemPerMinute(per_minute) if per_minute else None

    @property
    def run_tokens(self) -> int | None:
        return self._settings.run_tokens

    @property
    def message_bytes(self) -> int | None:
        return self._settings.message_bytes

    async def request(self, subject: str) -> Window | None:
        """Count a request of ``subject``. None when requests are not limited."""
        if self._requests is None:
            return None
        admitted = await self._windows.hit(self._requests, subject)
        reset_at, remaining = await self._windows.get_window_stats(self._requests, subject)
        window = Window(self._requests.amount, remaining, _seconds(reset_at - self._now().timestamp()))
        if not admitted:
            raise RateLimited(
                f"No more than {window.limit} requests a minute are allowed", retry_after_s=window.reset_s
            )
        return window

    async def tokens(self, owner: str) -> None:
        """What begins now would use tokens of the owner. What is under way when the day's are spent goes on."""
        limit = self._settings.tokens_per_day
        if limit is None or await self._store.used_today(owner) < limit:
            return
        now = self._now()
        midnight = now.replace(hour=0, minute=0, second=0, microsecond=0) + timedelta(days=1)
        raise RateLimited(
            f"The {limit} tokens of this day (UTC) are used up",
            code="daily_tokens_exhausted",
            retry_after_s=_seconds((midnight - now).total_seconds()),
        )

    async def used(self, owner: str, tokens: int) -> None:
        """Note what the owner has used, where that is limited."""
        if tokens and self._settings.tokens_per_day is not None:
            await self._store.use(owner, tokens)

    @property
    def counts_runs(self) -> bool:
        return self._settings.concurrent_runs is not None

    async def run(self, connection: Any, owner: str, replaced: str | None) -> None:
        """One more run of the owner, to be admitted in the transaction of ``connection``. Those that wait count too,
        but not those of the thread ``replaced``, which the new one puts an end to."""
        limit = self._settings.concurrent_runs
        if limit is not None and await self._store.active_runs(connection, owner, replaced) >= limit:
            raise RateLimited(
                f"No more than {limit} runs may wait or be at work at a time",
                code="too_many_runs",
                retry_after_s=RUNS_RETRY_S,
            )

    async def used_by(self, run_id: str) -> int:
        """Tokens that the run has used so far."""
        return await self._store.used_by_run(run_id)

    async def counted(self, owner: str, work: Awaitable[T]) -> T:
        """Do ``work``, which is no part of a run, and note the tokens that its compactions used."""
        budget = TokenBudget()
        token = CURRENT.set(budget)
        try:
            return await work
        finally:
            CURRENT.reset(token)
            await self.used(owner, budget.spent)

    async def compaction(self, owner: str, thread_id: str) -> None:
        """A person asks to compact the thread."""
        limit = self._settings.compactions_per_minute
        if limit is not None:
            begun = await self._store.manual_compactions(owner, thread_id, _MINUTE_S)
            if len(begun) >= limit:
                free_at = begun[-limit] + timedelta(seconds=_MINUTE_S)
                raise RateLimited(
                    f"No more than {limit} compactions of a thread are allowed in a minute",
                    code="too_many_compactions",
                    retry_after_s=_seconds((free_at - self._now()).total_seconds()),
                )
        await self.tokens(owner)


def _seconds(left: float) -> int:
    return max(1, math.ceil(left))
