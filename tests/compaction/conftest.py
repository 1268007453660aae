"""The machine is shared with other tests: an example of hypothesis that took long says nothing about the
code."""

from __future__ import annotations

from hypothesis import settings

settings.register_profile("shared", deadline=None)
settings.load_profile("shared")
