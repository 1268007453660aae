"""Awaiting what must not be cut short, in a task that others may cancel."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import Any, TypeVar

from app.persistence.cancellation import cancelled

T = TypeVar("T")


async def undisturbed(work: Coroutine[Any, Any, T]) -> T:
    """Await ``work`` to its end, whoever cancels the waiting task meanwhile; those cancellations are used up."""
    result, _ = await to_its_end(work)
    return result


async def to_its_end(work: Coroutine[Any, Any, T]) -> tuple[T, bool]:
    """As ``undisturbed``; beside the result, whether the waiting task was cancelled meanwhile."""
    task = asyncio.create_task(work)
    told = False
    while not task.done():
        try:
            await asyncio.wait({task})
        except asyncio.CancelledError:
            told = True
            _use_up()
    return task.result(), told


async def unless_cancelled(task: asyncio.Task[Any]) -> bool:
    """Wait for ``task``. False when the waiting task was cancelled: ``task`` was then cancelled too and has ended,
    in whatever way, and the cancellation is used up."""
    try:
        await asyncio.wait({task})
    except asyncio.CancelledError:
        _use_up()
        await undisturbed(cancelled(task))
        return False
    return True


async def unbroken(work: Coroutine[Any, Any, T]) -> T:
    """Await ``work``; when the waiting task is cancelled, it goes on to its end unattended: a query that is cut short
    costs its connection."""
    task = asyncio.create_task(work)
    task.add_done_callback(_see)
    return await asyncio.shield(task)


def _see(task: asyncio.Task[Any]) -> None:
    # So that a failure nobody waits for any more is not reported as "never retrieved".
    if not task.cancelled():
        task.exception()


def _use_up() -> None:
    current = asyncio.current_task()
    if current:
        current.uncancel()
