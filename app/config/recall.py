"""The section ``recall``: how agents look up what compactions removed."""

from __future__ import annotations

from app.config.values import PositiveWhole, Section


class RecallSettings(Section):
    """``max_results`` is what one search returns at most, ``max_chars`` how much of a message is read at once."""

    enabled: bool = True
    max_results: PositiveWhole = 8
    max_chars: PositiveWhole = 8000
