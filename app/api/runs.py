"""Runs of a thread: start, stream, wait, join, list, get, cancel, delete."""

from __future__ import annotations

from dataclasses import replace
from typing import Annotated, Literal

from fastapi import APIRouter, Header, Query, Request, Response
from starlette.responses import StreamingResponse

from app.api.deps import Injected, Owner, RunId, Services, ThreadId
from app.api.responses import Json, chosen, no_content
from app.api.run_answers import SSE, final_values, path_of, streaming, waiting
from app.api.run_schemas import RunBody, check_stream_modes
from app.api.schemas import MAX_OFFSET
from app.api.sse import frames
from app.errors import InvalidInput
from app.persistence.runs import Run, RunStatus
from app.services.runs.service import run_to_json

router = APIRouter(prefix="/threads/{thread_id}/runs", tags=["runs"])


@router.post("")
async def create_run(thread_id: ThreadId, body: RunBody, owner: Owner, injected: Injected) -> Json:
    """Start a run in the background. Unless it says otherwise, the thread's stream (v2) shows all of it."""
    # The default of one official client is to say nothing, that of the other one to ask for values.
    request = replace(body.request(thread_id), recorded=body.stream_mode in ([], ["values"]))
    run = await injected.runs.start(thread_id, owner, request)
    return Json(run_to_json(run), headers={"Content-Location": path_of(run)})


@router.post("/stream", responses=SSE)
async def stream_run(
    thread_id: ThreadId, body: RunBody, owner: Owner, injected: Injected
) -> StreamingResponse:
    """Start a run and stream its events. The stream can be resumed at ``Location``."""
    request = body.request(thread_id)
    run = await injected.runs.start(thread_id, owner, request)
    events = frames(injected.streams.pages(run.run_id, new=True))
    return streaming(events, injected, run, request.cancel_on_disconnect)


@router.post("/wait")
async def wait_for_run(
    thread_id: ThreadId, body: RunBody, owner: Owner, injected: Injected
) -> StreamingResponse:
    """Start a run and answer with the thread's values when it has ended."""
    request = body.request(thread_id)
    run = await injected.runs.start(thread_id, owner, request)
    return waiting(final_values(injected, run), injected, run, request.cancel_on_disconnect)


@router.get("")
async def list_runs(
    thread_id: ThreadId,
    owner: Owner,
    injected: Injected,
    limit: Annotated[int, Query(ge=1, le=1000)] = 10,
    offset: Annotated[int, Query(ge=0, le=MAX_OFFSET)] = 0,
    status: RunStatus | None = None,
    select: Annotated[list[str] | None, Query()] = None,
) -> Json:
    """Newest first. ``select`` names the fields to return."""
    await injected.threads.get(owner, thread_id)
    runs = [run_to_json(run) for run in await injected.runs.page(thread_id, limit, offset, status)]
    return Json([chosen(run, select, "query.select") for run in runs])


@router.get("/{run_id}")
async def get_run(thread_id: ThreadId, run_id: RunId, owner: Owner, injected: Injected) -> Json:
    return Json(run_to_json(await _run(thread_id, run_id, owner, injected)))


@router.delete("/{run_id}", status_code=204)
async def delete_run(thread_id: ThreadId, run_id: RunId, owner: Owner, injected: Injected) -> Response:
    """Delete a finished run and its events; its checkpoints stay, they are the thread's."""
    await _run(thread_id, run_id, owner, injected)
    await injected.runs.delete(thread_id, run_id)
    return no_content()


@router.get("/{run_id}/join")
async def join_run(
    thread_id: ThreadId,
    run_id: RunId,
    owner: Owner,
    injected: Injected,
    cancel_on_disconnect: bool = False,
) -> StreamingResponse:
    """Wait for a run and answer with the thread's values when it has ended."""
    run = await _run(thread_id, run_id, owner, injected)
    return waiting(final_values(injected, run), injected, run, cancel_on_disconnect)


@router.get("/{run_id}/stream", responses=SSE)
async def join_stream(
    request: Request,
    thread_id: ThreadId,
    run_id: RunId,
    owner: Owner,
    injected: Injected,
    last_event_id: Annotated[str | None, Header()] = None,
    cancel_on_disconnect: bool = False,
) -> StreamingResponse:
    """The run's events after ``Last-Event-ID``; all of them without it or with ``-1``, also when the run is over."""
    modes = check_stream_modes(request.query_params.getlist("stream_mode") or None)
    run = await _run(thread_id, run_id, owner, injected)
    events = frames(injected.streams.pages(run.run_id, _cursor(last_event_id)), modes)
    return streaming(events, injected, run, cancel_on_disconnect)


@router.post("/{run_id}/cancel", status_code=202, responses={204: {"description": "It has ended"}})
async def cancel_run(
    thread_id: ThreadId,
    run_id: RunId,
    owner: Owner,
    injected: Injected,
    wait: bool = False,
    action: Literal["interrupt", "rollback"] = "interrupt",
) -> Response:
    """Stop a run. ``wait=1`` answers when it has ended."""
    run = await _run(thread_id, run_id, owner, injected)
    await injected.runs.cancel(thread_id, run_id, action)
    if wait:
        async for _ in injected.streams.finished(run.run_id):
            pass
    return no_content() if wait else Response(status_code=202)


async def _run(thread_id: str, run_id: str, owner: str, injected: Services) -> Run:
    await injected.threads.get(owner, thread_id)
    return await injected.runs.get(thread_id, run_id)


def _cursor(last_event_id: str | None) -> int:
    if not last_event_id or last_event_id == "-1":
        return 0
    if last_event_id.isascii() and last_event_id.isdigit() and len(last_event_id) <= 18:
        return int(last_event_id)
    raise InvalidInput(f"header.last-event-id: must be the id of an event of this run, got {last_event_id!r}")
