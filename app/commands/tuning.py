"""What makes a process cheaper that runs for long and does many small things at a time."""

from __future__ import annotations

import gc
from collections.abc import Awaitable, Callable
from contextvars import Context
from typing import Any

import langsmith
from langsmith.utils import tracing_is_enabled

# Objects of the youngest generation, then collections of the generation below: a run makes some ten thousand objects,
# nearly all of which are freed without the collector.
_THRESHOLDS = (5_000, 20, 20)


def tune() -> None:
    """For a process that is ready: what it holds now, it holds to its end."""
    gc.collect()
    # No full collection looks through it again.
    gc.freeze()
    gc.set_threshold(*_THRESHOLDS)
    if not tracing_is_enabled():
        langsmith.set_runtime_overrides(aio_to_thread=_without_a_thread)


async def _without_a_thread(
    default: Callable[..., Awaitable[Any]],
    context: Context,
    work: Callable[..., Any],
    /,
    *args: Any,
    **kwargs: Any,
) -> Any:
    """LangChain wraps every hook of a middleware for LangSmith, which goes to a thread and back to begin a trace, and
    again to end it: also when there is none, and then it has nothing to do there."""
    if tracing_is_enabled():
        return await default(context, work, *args, **kwargs)
    return context.run(work, *args, **kwargs)
