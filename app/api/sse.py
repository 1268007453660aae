"""Server-sent events: how a run's events look on the wire."""

from __future__ import annotations

from collections.abc import AsyncIterator, Collection, Sequence

from fastapi.sse import format_sse_event

from app.errors import ShuttingDown
from app.persistence.events import Event
from app.services.threads.streams import ThreadEvent

HEARTBEAT = b": heartbeat\n\n"
# Sent at once, so that proxies and clients see the stream open before the first event exists.
OPENING = b": stream\n\n"
# The connection breaks after it; EventSource takes the time from here to reconnect, in milliseconds.
CLOSING = b": this process is going down; go on after the last id at Location\nretry: 1000\n\n"
_ALWAYS = ("metadata", "error", "end")


async def frames(pages: AsyncIterator[Sequence[Event]], modes: Collection[str] = ()) -> AsyncIterator[bytes]:
    """Encode a followed run, what comes together in one piece. ``modes`` keeps only events of these stream modes; none
    given keeps all."""
    yield OPENING
    try:
        async for page in pages:
            if not page:
                yield HEARTBEAT
            elif wanted := [event for event in page if _wanted(event.event, modes)]:
                yield b"".join(_frame(event) for event in wanted)
    except ShuttingDown:
        yield CLOSING
        raise


def _frame(event: Event) -> bytes:
    return format_sse_event(data_str=event.data, event=event.event, id=str(event.seq))


async def thread_frames(events: AsyncIterator[ThreadEvent | None]) -> AsyncIterator[bytes]:
    """Encode a followed thread."""
    yield OPENING
    try:
        async for event in events:
            if event is None:
                yield HEARTBEAT
            else:
                yield format_sse_event(data_str=event.data, event=event.event, id=str(event.cursor))
    except ShuttingDown:
        yield CLOSING
        raise


def _wanted(name: str, modes: Collection[str]) -> bool:
    base = name.split("|", 1)[0]
    if not modes or base in _ALWAYS or base in modes:
        return True
    return (base == "messages" and "messages-tuple" in modes) or (
        base.startswith("messages/") and "messages" in modes
    )
