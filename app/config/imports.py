"""Names like ``package.module:attribute``, as config.yaml writes them."""

from __future__ import annotations

import importlib
import re
from typing import Any

TARGET = re.compile(r"[A-Za-z_]\w*(?:\.[A-Za-z_]\w*)*:[A-Za-z_]\w*")


def split_target(target: str) -> tuple[str, str]:
    """``package.module:Name`` as (module, name). Raises ValueError when it has another form."""
    if not TARGET.fullmatch(target):
        raise ValueError(f'{target!r} is not of the form "package.module:Name"')
    module, _, name = target.partition(":")
    return module, name


def import_attribute(target: str) -> Any:
    """What ``package.module:Name`` names. Raises ValueError, ImportError or AttributeError."""
    module, name = split_target(target)
    return getattr(importlib.import_module(module), name)
