"""A clock that a test sets."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta


class FakeClock:
    """Says ``now`` until it is moved; starts on a Monday at noon, UTC."""

    def __init__(self, now: datetime = datetime(2026, 1, 5, 12, tzinfo=UTC)) -> None:
        self.now = now

    def __call__(self) -> datetime:
        return self.now

    def pass_days(self, days: float) -> None:
        self.now += timedelta(days=days)
