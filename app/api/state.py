"""State of a thread: read, read at a checkpoint, write, history."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from typing import Annotated, Any

from fastapi import APIRouter, Query
from langgraph.types import StateSnapshot
from starlette.responses import StreamingResponse

from app.api.deps import Injected, Owner, Services, ThreadId
from app.api.responses import Json
from app.api.schemas import (
    VALUES_KEY,
    HistoryBody,
    HistoryQuery,
    StateAtCheckpoint,
    StatePatch,
    StateQuery,
    StateUpdateBody,
)
from app.api.thread_view import thread_to_json
from app.serialization import checkpoint_to_json, dumps, state_to_json
from app.services.threads.state import HEAD, Place, StateWrite

router = APIRouter(prefix="/threads/{thread_id}", tags=["state"])


@router.get("/state")
async def get_state(
    thread_id: ThreadId, owner: Owner, injected: Injected, query: Annotated[StateQuery, Query()]
) -> Json:
    """The newest state. Of a thread without any: no values, and ``checkpoint`` null."""
    return await _state(injected, owner, thread_id, HEAD, query.subgraphs, query.select)


@router.get("/state/{checkpoint_id}")
async def get_state_at(
    thread_id: ThreadId,
    checkpoint_id: str,
    owner: Owner,
    injected: Injected,
    query: Annotated[StateQuery, Query()],
) -> Json:
    return await _state(injected, owner, thread_id, Place(checkpoint_id), query.subgraphs, query.select)


@router.post("/state/checkpoint")
async def get_state_at_checkpoint(
    thread_id: ThreadId, owner: Owner, injected: Injected, body: StateAtCheckpoint
) -> Json:
    place = body.checkpoint.place(thread_id, "body.checkpoint")
    return await _state(injected, owner, thread_id, place, body.subgraphs, body.select)


@router.post("/state")
async def update_state(thread_id: ThreadId, owner: Owner, injected: Injected, body: StateUpdateBody) -> Json:
    """Write to the state: values of one step, or a list of steps. Goes on when the client leaves."""
    place = body.checkpoint.place(thread_id, "body.checkpoint") if body.checkpoint else HEAD
    if body.checkpoint_id:
        place = Place(body.checkpoint_id, place.checkpoint_ns, place.checkpoint_map)
    write = StateWrite(body.values, body.as_node or None, place)
    written = await injected.background.finish(injected.states.update(owner, thread_id, write))
    checkpoint = checkpoint_to_json(written)
    assert checkpoint is not None
    return Json(
        {
            "checkpoint": {**checkpoint, "checkpoint_map": checkpoint.get("checkpoint_map")},
            "configurable": checkpoint,
            "checkpoint_id": checkpoint["checkpoint_id"],
        }
    )


@router.patch("/state")
async def patch_state(thread_id: ThreadId, owner: Owner, injected: Injected, body: StatePatch) -> Json:
    """Merge ``metadata`` into the thread's, as the JavaScript client's ``patchState`` means it."""
    thread = await injected.threads.patch(owner, thread_id, body.metadata or {})
    return Json(thread_to_json(thread, await injected.states.values(thread)))


@router.post("/history")
async def post_history(
    thread_id: ThreadId, owner: Owner, injected: Injected, body: HistoryBody | None = None
) -> StreamingResponse:
    """States, newest first. ``before`` is exclusive; ``checkpoint`` names a subgraph by its namespace."""
    body = body or HistoryBody()
    states = await injected.states.history(
        owner,
        thread_id,
        limit=body.limit,
        before=body.before.place(thread_id, "body.before") if body.before else None,
        metadata=body.metadata,
        place=body.checkpoint.place(thread_id, "body.checkpoint") if body.checkpoint else HEAD,
    )
    return await _listed(states, body.select)


@router.get("/history")
async def get_history(
    thread_id: ThreadId, owner: Owner, injected: Injected, query: Annotated[HistoryQuery, Query()]
) -> StreamingResponse:
    before = Place(query.before) if query.before else None
    states = await injected.states.history(owner, thread_id, limit=query.limit, before=before)
    return await _listed(states, query.select)


async def _state(
    injected: Services,
    owner: str,
    thread_id: str,
    place: Place,
    subgraphs: bool,
    select: Sequence[str] | None,
) -> Json:
    snapshot = await injected.states.read(owner, thread_id, place, subgraphs=subgraphs)
    return Json(_selected(state_to_json(snapshot), select))


async def _listed(states: AsyncIterator[StateSnapshot], select: Sequence[str] | None) -> StreamingResponse:
    """State by state, since a page of long ones need not fit into memory. The first is read before the answer
    begins, so that a database that is gone is a status."""
    first = await anext(states, None)

    async def array() -> AsyncIterator[bytes]:
        if first is None:
            yield b"[]"
            return
        yield b"[" + dumps(_selected(state_to_json(first), select))
        async for state in states:
            yield b"," + dumps(_selected(state_to_json(state), select))
        yield b"]"

    return StreamingResponse(array(), media_type="application/json")


def _selected(state: dict[str, Any], select: Sequence[str] | None) -> dict[str, Any]:
    if not select:
        return state
    shown = {name: state[name] for name in select if not name.startswith(VALUES_KEY)}
    keys = [name.removeprefix(VALUES_KEY) for name in select if name.startswith(VALUES_KEY)]
    if keys and "values" not in shown:
        shown["values"] = {key: state["values"][key] for key in keys if key in state["values"]}
    return shown
