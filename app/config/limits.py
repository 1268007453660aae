"""The section ``limits``: what one owner, run and request may use. Nothing is limited unless it is asked for."""

from __future__ import annotations

from app.config.values import PositiveWhole, Section


class LimitsSettings(Section):
    """None: no limit. ``requests_per_minute`` is counted by each process for itself, everything else in the database.

    ``run_tokens``: a run, with its subagents and compactions. ``tokens_per_day``: an owner, by the day of UTC.
    ``concurrent_runs``: an owner's runs that wait or are at work. ``message_bytes``: one message, as JSON.
    """

    requests_per_minute: PositiveWhole | None = None
    concurrent_runs: PositiveWhole | None = None
    run_tokens: PositiveWhole | None = None
    tokens_per_day: PositiveWhole | None = None
    message_bytes: PositiveWhole | None = None
    compactions_per_minute: PositiveWhole | None = None
