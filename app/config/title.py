"""The section ``title``: the name that a thread gets after its first exchange."""

from __future__ import annotations

from app.config.values import PositiveWhole, Section, Text


class TitleSettings(Section):
    """``model_name`` None: the model of the run. ``max_words`` is asked of the model, ``max_chars`` is kept to."""

    enabled: bool = True
    model_name: Text | None = None
    max_words: PositiveWhole = 6
    max_chars: PositiveWhole = 60
