"""The whole conversation of a thread, as people see it."""

from __future__ import annotations

from typing import Annotated, Literal

from fastapi import APIRouter, Query

from app.api.deps import Injected, Owner, ThreadId
from app.api.responses import Json
from app.errors import InvalidInput
from app.services.markdown import message_html
from app.services.threads.timeline import PageRequest

router = APIRouter(prefix="/threads/{thread_id}/messages", tags=["messages"])

Rendering = Literal["html"] | None
Limit = Annotated[int, Query(ge=1, le=200)]


@router.get("")
async def list_messages(
    thread_id: ThreadId,
    owner: Owner,
    injected: Injected,
    limit: Limit = 50,
    before_seq: Annotated[int | None, Query(ge=1, le=2**53)] = None,
    around: Annotated[str | None, Query(min_length=1, max_length=256)] = None,
    include_hidden: bool = False,
    render: Rendering = None,
) -> Json:
    """Archived and live messages in their true order, newest page first; inside a page the oldest message is first.

    ``seq`` counts all messages from 1, hidden ones too, which are left out unless ``include_hidden``. The next page is
    ``before_seq=next_before_seq``. ``around`` asks for the page with this message in its middle. ``markers`` are the
    compactions that happened behind the messages of the page (``after_seq``). ``render=html`` adds to each entry
    ``html``, its Markdown as sanitised markup (null without text).
    """
    if around is not None and before_seq is not None:
        raise InvalidInput("query.around: cannot be combined with before_seq")
    wanted = PageRequest(limit, before_seq, around, include_hidden)
    page = await injected.timelines.page(owner, thread_id, wanted)
    if render:
        page["data"] = [{**entry, "html": message_html(entry["message"])} for entry in page["data"]]
    return Json(page)
