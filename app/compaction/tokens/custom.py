"""A token counter of the user's in the place of the estimate."""

from __future__ import annotations

import importlib
import logging
import math
from collections.abc import Callable, Sequence
from typing import Any

from langchain_core.messages import BaseMessage

from app.errors import ConfigError

log = logging.getLogger(__name__)

CustomCount = Callable[[Sequence[BaseMessage]], Any]


def load_counter(path: str) -> CustomCount:
    """The function that ``package.module:function`` names. Raises ConfigError when there is none."""
    module_name, _, name = path.partition(":")
    if not module_name or not name:
        raise ConfigError(f"summarization.token_counter is {path!r}; allowed is 'package.module:function'")
    try:
        function = getattr(importlib.import_module(module_name), name)
    except (ImportError, AttributeError) as error:
        raise ConfigError(f"summarization.token_counter {path!r} cannot be loaded: {error}") from error
    if not callable(function):
        raise ConfigError(f"summarization.token_counter {path!r} is not a function")
    return function


class Guarded:
    """A custom counter that cannot end a run: what it cannot count is estimated, with one warning."""

    def __init__(self, count: CustomCount) -> None:
        self._count = count
        self._warned = False

    def __call__(self, message: BaseMessage) -> int | None:
        """Tokens of one message; None when the function failed or did not answer with an amount."""
        try:
            return _amount(self._count([message]))
        except Exception as error:  # noqa: BLE001 - foreign code, and a wrong count must not end a run
            self._warn(error)
            return None

    def _warn(self, error: Exception) -> None:
        if not self._warned:
            self._warned = True
            log.warning("the custom token counter failed (%s: %s); estimating", type(error).__name__, error)


def _amount(value: Any) -> int:
    if isinstance(value, bool) or not math.isfinite(value) or value < 0:
        raise ValueError(f"answered {value!r}, not a number of tokens")
    return math.ceil(value)
