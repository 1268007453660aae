"""The stream of a thread across its runs."""

from __future__ import annotations

import re
from typing import Annotated, get_args

from fastapi import APIRouter, Header, Query
from fastapi.sse import EventSourceResponse
from starlette.responses import StreamingResponse

from app.api.deps import Injected, Owner, ThreadId
from app.api.responses import WatchedStream
from app.api.run_answers import NO_BUFFERING, SSE
from app.api.run_schemas import listed
from app.api.sse import thread_frames
from app.errors import InvalidInput
from app.services.threads.streams import Cursor, ThreadStreamMode

router = APIRouter(prefix="/threads/{thread_id}", tags=["threads"])

_MODES: tuple[ThreadStreamMode, ...] = get_args(ThreadStreamMode)
_CURSOR = re.compile(r"([0-9]{1,18})-([0-9]{1,18})", re.ASCII)
_BEGINNING = ("-1", "-", "0")
Modes = Annotated[list[str] | None, Query()]


@router.get("/stream", responses=SSE)
async def stream_thread(
    thread_id: ThreadId,
    owner: Owner,
    injected: Injected,
    stream_mode: Modes = None,
    stream_modes: Modes = None,
    last_event_id: Annotated[str | None, Header()] = None,
) -> StreamingResponse:
    """Events of the thread, run after run; the stream stays open between them.

    ``run_modes`` (the default): all events of its runs, a ``metadata`` event with ``status: run_done`` after each.
    ``lifecycle``: only where each run begins and is done. ``state_update``: the state after each write to it.
    Without ``Last-Event-ID`` it begins with the run that is under way, if there is one; with ``-1`` with all there is.
    """
    modes = _modes([*listed(stream_mode), *listed(stream_modes)])
    after = _cursor(last_event_id)
    await injected.threads.get(owner, thread_id)
    return WatchedStream(
        thread_frames(injected.thread_streams.follow(owner, thread_id, modes, after)),
        on_leave=None,
        media_type=EventSourceResponse.media_type,
        headers={**NO_BUFFERING, "Location": f"/threads/{thread_id}/stream"},
    )


def _modes(asked: list[str]) -> list[ThreadStreamMode]:
    for name in asked:
        if name not in _MODES:
            raise InvalidInput(f"query.stream_mode: there is no mode {name!r}; known: {', '.join(_MODES)}")
    return [mode for mode in _MODES if mode in asked] or ["run_modes"]


def _cursor(last_event_id: str | None) -> Cursor | None:
    if not last_event_id:
        return None
    if last_event_id in _BEGINNING:
        return Cursor()
    if found := _CURSOR.fullmatch(last_event_id):
        return Cursor(int(found[1]), int(found[2]))
    raise InvalidInput(
        f"header.last-event-id: must be the id of an event of this stream, got {last_event_id!r}"
    )
