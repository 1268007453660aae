"""The section ``retention``: what is removed by its age."""

from __future__ import annotations

from app.config.values import PositiveNumber, Section


class RetentionSettings(Section):
    """Days since something happened on a thread, or since a run ended; None, the default: never.

    ``interval_s`` is how often it is looked for.
    """

    prune_checkpoints_after_days: PositiveNumber | None = None
    delete_threads_after_days: PositiveNumber | None = None
    delete_events_after_days: PositiveNumber | None = None
    interval_s: PositiveNumber = 3600.0

    @property
    def wanted(self) -> bool:
        """Whether anything is removed at all."""
        days = (
            self.prune_checkpoints_after_days,
            self.delete_threads_after_days,
            self.delete_events_after_days,
        )
        return any(limit is not None for limit in days)
