"""The stream of a thread (v2): what its runs say, as server-sent events or over a WebSocket."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Annotated, Any

from fastapi import APIRouter, Header, WebSocket
from fastapi.sse import EventSourceResponse, format_sse_event
from starlette.responses import StreamingResponse

from app.api.deps import Asking, Injected, Owner, Services, ThreadId
from app.api.responses import WatchedStream
from app.api.sse import CLOSING, HEARTBEAT, OPENING
from app.api.thread_schemas import EventStreamRequest
from app.api.thread_socket import ThreadSocket
from app.errors import InvalidInput, ShuttingDown
from app.services.thread_events.filter import Subscription
from app.services.thread_events.frames import Frame

router = APIRouter(tags=["thread streams"])

_NO_BUFFERING = {"Cache-Control": "no-store", "X-Accel-Buffering": "no"}
_SSE: dict[int | str, dict[str, Any]] = {200: {"content": {EventSourceResponse.media_type: {}}}}


@router.post("/threads/{thread_id}/stream/events", responses=_SSE)
async def stream_events(
    thread_id: ThreadId,
    body: EventStreamRequest,
    owner: Owner,
    injected: Injected,
    last_event_id: Annotated[str | None, Header()] = None,
) -> StreamingResponse:
    """The run that goes on, or else the newest one, from its beginning, and then every further run; with ``since`` what
    came after it. Stays open until the thread is deleted."""
    wanted = body.subscription("body")
    since = body.since if body.since is not None else _cursor(last_event_id)
    await injected.threads.get(owner, thread_id)
    return WatchedStream(
        _encoded(injected, thread_id, wanted, since),
        on_leave=None,
        media_type=EventSourceResponse.media_type,
        headers=_NO_BUFFERING,
    )


@router.websocket("/threads/{thread_id}/stream/events")
async def socket(websocket: WebSocket, thread_id: str, asking: Asking, injected: Injected) -> None:
    """Commands in, their answers and the frames of subscriptions out."""
    await ThreadSocket(websocket, injected, asking, thread_id).serve()


async def _encoded(
    injected: Services, thread_id: str, wanted: Subscription, since: int | None
) -> AsyncIterator[bytes]:
    yield OPENING
    try:
        async for frame in injected.thread_events.follow(thread_id, wanted, since):
            yield HEARTBEAT if frame is None else _sse(frame)
    except ShuttingDown:
        yield CLOSING
        raise


def _sse(frame: Frame) -> bytes:
    return format_sse_event(data_str=frame.json().decode(), event=frame.method, id=str(frame.seq))


def _cursor(last_event_id: str | None) -> int | None:
    if not last_event_id:
        return None
    if last_event_id.isascii() and last_event_id.isdigit() and len(last_event_id) <= 18:
        return int(last_event_id)
    raise InvalidInput(
        f"header.last-event-id: must be the id of an event of this thread, got {last_event_id!r}"
    )
