"""Ending a task that may overhear being cancelled."""

from __future__ import annotations

import asyncio
from typing import Any

ASK_AGAIN_SECONDS = 0.5


async def cancelled(*tasks: asyncio.Task[Any]) -> None:
    """Cancel ``tasks`` and wait until they have ended, in whatever way.

    A cancellation can be lost: a database driver in mid-query may raise something else in its place, and
    ``asyncio.wait_for`` forgets it when what it waits for comes at the same moment. So they are asked again.
    """
    while left := [task for task in tasks if not task.done()]:
        for task in left:
            task.cancel()
        await asyncio.wait(left, timeout=ASK_AGAIN_SECONDS)
