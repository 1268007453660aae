"""Answers that last as long as a run: its events, or its result."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import suppress
from typing import Any

from fastapi.sse import EventSourceResponse
from starlette.responses import StreamingResponse

from app.api.deps import Services
from app.api.responses import WatchedStream
from app.errors import ThreadkeepError
from app.persistence.runs import Run
from app.serialization import dumps

NO_BUFFERING = {"Cache-Control": "no-store", "X-Accel-Buffering": "no"}
SSE: dict[int | str, dict[str, Any]] = {200: {"content": {EventSourceResponse.media_type: {}}}}


async def final_values(injected: Services, run: Run) -> AsyncIterator[bytes]:
    """White space until the run has ended, then JSON: leading white space is no part of it."""
    async for _ in injected.streams.finished(run.run_id):
        yield b"\n"
    yield dumps(await injected.results.values(run.run_id))


def waiting(
    content: AsyncIterator[bytes], injected: Services, run: Run, cancel_when_left: bool
) -> StreamingResponse:
    return WatchedStream(
        content,
        on_leave=_canceller(injected, run) if cancel_when_left else None,
        media_type="application/json",
        headers={**NO_BUFFERING, "Location": f"{path_of(run)}/join", "Content-Location": path_of(run)},
    )


def streaming(
    events: AsyncIterator[bytes], injected: Services, run: Run, cancel_when_left: bool
) -> StreamingResponse:
    return WatchedStream(
        events,
        on_leave=_canceller(injected, run) if cancel_when_left else None,
        media_type=EventSourceResponse.media_type,
        headers={**NO_BUFFERING, "Location": f"{path_of(run)}/stream", "Content-Location": path_of(run)},
    )


def path_of(run: Run) -> str:
    """Without the /api prefix: official clients resolve it against their base URL, which has it."""
    return f"/threads/{run.thread_id}/runs/{run.run_id}"


def _canceller(injected: Services, run: Run) -> Callable[[], None]:
    """Cancels the run when the client went away, not when we do."""

    def cancel() -> None:
        if not injected.streams.closing:
            injected.background.start(_cancel(injected, run))

    return cancel


async def _cancel(injected: Services, run: Run) -> None:
    # It may have ended by itself just now.
    with suppress(ThreadkeepError):
        await injected.runs.cancel(run.thread_id, run.run_id, "interrupt")
