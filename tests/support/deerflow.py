"""The calls of DeerFlow's chat as its front end makes them, and the shapes that it takes apart."""

from __future__ import annotations

from typing import Any

import httpx

Body = dict[str, Any]


def submitted(text: str, thread_id: str) -> Body:
    """What its chat posts for a message of the person."""
    return {
        "assistant_id": "lead_agent",
        "input": {
            "messages": [
                {"type": "human", "content": [{"type": "text", "text": text}], "additional_kwargs": {}}
            ]
        },
        "config": {"recursion_limit": 1000},
        "context": {
            "model_name": "demo",
            "mode": "pro",
            "thinking_enabled": True,
            "is_plan_mode": True,
            "subagent_enabled": False,
            "reasoning_effort": "medium",
            "thread_id": thread_id,
        },
        "stream_mode": ["values", "messages-tuple", "custom", "updates"],
        "stream_resumable": True,
        "on_disconnect": "continue",
    }


def replayed(prepared: Body, thread_id: str) -> Body:
    """What it posts to run what the service prepared."""
    given = {name: prepared[name] for name in ("input", "checkpoint", "metadata")}
    return {**submitted("", thread_id), **given, "stream_subgraphs": True}


async def sent(http: httpx.AsyncClient, thread_id: str, text: str) -> str:
    """Post a message and read its stream to the end; the id of the run."""
    return await streamed(http, thread_id, submitted(text, thread_id))


async def streamed(http: httpx.AsyncClient, thread_id: str, body: Body) -> str:
    """Start a run and read its stream to the end; its id."""
    async with http.stream("POST", f"/api/langgraph/threads/{thread_id}/runs/stream", json=body) as response:
        assert response.status_code == 200
        place = response.headers["content-location"]
        assert response.headers["location"] == f"{place}/stream"
        assert place.startswith(f"/threads/{thread_id}/runs/")
        names = [line[7:] async for line in response.aiter_lines() if line.startswith("event: ")]
    assert (names[0], names[-1]) == ("metadata", "end")
    assert {"values", "messages", "updates"} <= set(names)
    return str(place.rpartition("/")[2])


def checked_page(page: dict[str, Any]) -> list[dict[str, Any]]:
    """The rows of a page of the history, as its parser wants them."""
    rows: list[dict[str, Any]] = page["data"]
    seqs = [row["seq"] for row in rows]
    assert all(isinstance(seq, int) and seq >= 1 for seq in seqs)
    assert seqs == sorted(set(seqs))
    assert isinstance(page["has_more"], bool)
    assert (page["next_before_seq"] is None) is not page["has_more"]
    for row in rows:
        assert row["content"]["type"] in ("human", "ai", "tool")
        assert (row["metadata"]["caller"], row["created_at"] is not None) == ("lead_agent", True)
    return rows


async def history(http: httpx.AsyncClient, thread_id: str, limit: int) -> list[dict[str, Any]]:
    """All pages of the history, newest first, put together as it does."""
    rows: list[dict[str, Any]] = []
    before: dict[str, int] = {}
    while True:
        page = (
            await http.get(f"/api/threads/{thread_id}/messages/page", params={"limit": limit, **before})
        ).json()
        rows = checked_page(page) + rows
        if not page["has_more"]:
            return rows
        before = {"before_seq": page["next_before_seq"]}
