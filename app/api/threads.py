"""Threads: create, search, count, get, patch, delete."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from functools import partial
from typing import Annotated, Any

from fastapi import APIRouter, Header, Query
from starlette.responses import Response

from app.api.deps import Injected, Owner, Services, ThreadId
from app.api.responses import Json, no_content
from app.api.schemas import ThreadCount, ThreadCreate, ThreadPatch, ThreadQuery, ThreadSearch
from app.api.thread_view import needs_values, thread_to_json, with_choice
from app.persistence.threads import Thread, ThreadFilter
from app.services.ids import check_thread_id

router = APIRouter(prefix="/threads", tags=["threads"])

# Each state is read over a connection of the pool that others need too.
_STATES_AT_ONCE = 4


@router.post("")
async def create_thread(owner: Owner, injected: Injected, body: ThreadCreate | None = None) -> Json:
    """Create a thread. Its id may be chosen; ``if_exists: do_nothing`` answers with the existing one.

    ``supersteps`` write the history of another thread into the new one.
    """
    body = body or ThreadCreate()
    steps = [[update.write() for update in step.updates] for step in body.supersteps or ()]
    creating = injected.threads.create(
        owner,
        _checked_id(body.thread_id, injected),
        body.metadata or {},
        body.if_exists or "raise",
        partial(injected.states.replay, owner, steps) if steps else None,
    )
    thread = await injected.background.finish(creating)
    if thread.state_updated_at is None and thread.status != "busy":
        # It is new, as most are: there is no state to be read.
        return Json(thread_to_json(thread, {}))
    return await _whole(injected, thread)


@router.post("/search")
async def search_threads(owner: Owner, injected: Injected, body: ThreadSearch | None = None) -> Json:
    """Threads that fit all conditions, by default the last changed first.

    ``values`` filters on small channel values, never on messages. State is read only when ``values`` is selected.
    """
    body = body or ThreadSearch()
    page, total = await injected.threads.search(
        _filter(owner, body, _checked_ids(body.ids, injected)),
        limit=body.limit,
        offset=body.offset,
        sort_by=body.sort_by or "updated_at",
        sort_order=body.sort_order or "desc",
    )
    live = [thread for thread in page if needs_values(thread, body.select, body.extract)]
    values = await _values_of(injected, live)
    shown = (thread_to_json(thread, values.get(thread.thread_id, thread.values)) for thread in page)
    headers = {"X-Pagination-Total": str(total)}
    if body.offset + len(page) < total:
        headers["X-Pagination-Next"] = str(body.offset + len(page))
    return Json([with_choice(thread, body.select, body.extract) for thread in shown], headers=headers)


@router.post("/count")
async def count_threads(owner: Owner, injected: Injected, body: ThreadCount | None = None) -> Json:
    return Json(await injected.threads.count(_filter(owner, body or ThreadCount())))


@router.get("/{thread_id}")
async def get_thread(
    thread_id: ThreadId, owner: Owner, injected: Injected, query: Annotated[ThreadQuery, Query()]
) -> Json:
    return await _whole(injected, await injected.threads.get(owner, thread_id))


@router.patch("/{thread_id}", responses={204: {"description": "Changed, as Prefer asked for it"}})
async def patch_thread(
    thread_id: ThreadId,
    owner: Owner,
    injected: Injected,
    body: ThreadPatch,
    prefer: Annotated[str, Header()] = "",
) -> Response:
    """Merge ``metadata`` into the thread's, key by key. ``Prefer: return=minimal`` answers 204."""
    thread = await injected.threads.patch(owner, thread_id, body.metadata or {})
    return no_content() if "return=minimal" in prefer else await _whole(injected, thread)


@router.delete("/{thread_id}", status_code=204)
async def delete_thread(thread_id: ThreadId, owner: Owner, injected: Injected) -> Response:
    """Remove the thread and everything of it. Goes on when the client leaves."""
    await injected.background.finish(injected.threads.delete(owner, thread_id))
    return no_content()


async def _whole(injected: Services, thread: Thread) -> Json:
    return Json(thread_to_json(thread, await injected.states.values(thread)))


async def _values_of(injected: Services, threads: list[Thread]) -> Mapping[str, Any]:
    turn = asyncio.Semaphore(_STATES_AT_ONCE)

    async def read(thread: Thread) -> Any:
        async with turn:
            return await injected.states.values(thread)

    read_values = await asyncio.gather(*(read(thread) for thread in threads))
    return dict(zip((thread.thread_id for thread in threads), read_values, strict=True))


def _filter(owner: str, body: ThreadCount, ids: list[str] | None = None) -> ThreadFilter:
    return ThreadFilter(
        owner=owner, metadata=body.metadata or {}, values=body.values or {}, ids=ids, status=body.status
    )


def _checked_id(thread_id: str | None, injected: Services) -> str | None:
    if thread_id is None:
        return None
    return check_thread_id(thread_id, strict=injected.strict_thread_ids, where="body.thread_id")


def _checked_ids(ids: list[str] | None, injected: Services) -> list[str] | None:
    strict = injected.strict_thread_ids
    return ids and [
        check_thread_id(thread_id, strict=strict, where=f"body.ids[{index}]")
        for index, thread_id in enumerate(ids)
    ]
