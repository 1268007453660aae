"""Assistants: one for each hosted graph, under a stable id."""

from __future__ import annotations

from typing import Any

from fastapi import APIRouter

from app.agent.names import assistant_id
from app.api.deps import Injected, Services
from app.api.responses import Json, chosen
from app.api.schemas import AssistantCount, AssistantSearch
from app.ports import AgentSpec

router = APIRouter(prefix="/assistants", tags=["assistants"])

_SYSTEM_METADATA = {"created_by": "system"}
# They come with the configuration and were not created at any time.
_ALWAYS = "1970-01-01T00:00:00+00:00"


@router.post("/search")
async def search_assistants(injected: Injected, body: AssistantSearch | None = None) -> Json:
    body = body or AssistantSearch()
    found = _matching(injected, body)
    if key := body.sort_by:
        found.sort(key=lambda assistant: assistant[key], reverse=body.sort_order == "desc")
    page = found[body.offset : body.offset + body.limit]
    headers = {"X-Pagination-Total": str(len(found))}
    if body.offset + len(page) < len(found):
        headers["X-Pagination-Next"] = str(body.offset + len(page))
    return Json([chosen(assistant, body.select, "body.select") for assistant in page], headers=headers)


@router.post("/count")
async def count_assistants(injected: Injected, body: AssistantCount | None = None) -> Json:
    return Json(len(_matching(injected, body or AssistantCount())))


@router.get("/{assistant_id}")
async def get_assistant(assistant_id: str, injected: Injected) -> Json:
    """By id, by the name of its graph, or by an alias of it."""
    return Json(_assistant(injected.graphs.spec(injected.graphs.resolve(assistant_id))))


def _matching(injected: Services, body: AssistantCount) -> list[dict[str, Any]]:
    wanted = {name: value for name, value in (("graph_id", body.graph_id), ("name", body.name)) if value}
    return [
        assistant
        for assistant in (_assistant(injected.graphs.spec(name)) for name in injected.graphs.names)
        if wanted.items() <= assistant.items()
        and all(assistant["metadata"].get(key) == value for key, value in (body.metadata or {}).items())
    ]


def _assistant(agent: AgentSpec) -> dict[str, Any]:
    return {
        "assistant_id": assistant_id(agent.name),
        "graph_id": agent.name,
        "name": agent.name,
        "description": agent.description or None,
        "config": {},
        "context": {},
        "metadata": _SYSTEM_METADATA,
        "version": 1,
        "created_at": _ALWAYS,
        "updated_at": _ALWAYS,
    }
