"""Loads by name what most processes never need, or not yet: importing it takes a good part of a second."""

from __future__ import annotations

import importlib
from typing import Any


def load(target: str) -> Any:
    """What ``package.module:name`` names, imported now if nobody has before.

    Only for parts of this project that are slow to import and often not needed; everything else is imported at the
    top of the module that uses it. The callers are the command line (a command) and the schema (Alembic).
    """
    module, _, name = target.partition(":")
    return getattr(importlib.import_module(module), name)
