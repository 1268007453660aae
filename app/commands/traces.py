"""Traces that LangChain sends to LangSmith, where the environment asks for it."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager

from langsmith.run_trees import get_cached_client
from langsmith.utils import tracing_is_enabled

LAST_SECONDS = 2.0


@contextmanager
def langsmith_traces() -> Iterator[None]:
    """What is not sent when the block ends gets ``LAST_SECONDS``, and is given up then: LangSmith's own threads would
    keep a process that is told to stop for a minute and longer where nobody answers them."""
    if not tracing_is_enabled():
        yield
        return
    # Read when the first run makes the client.
    os.environ.setdefault("LANGSMITH_USE_DAEMON", "true")
    try:
        yield
    finally:
        get_cached_client().flush(LAST_SECONDS)
