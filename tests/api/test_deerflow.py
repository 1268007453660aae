"""A chat as DeerFlow's front end holds it: its calls in their order, and the shapes that it takes apart."""

from __future__ import annotations

import uuid
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import httpx
import orjson
import pytest
from langgraph_sdk import get_client

from tests.support.deerflow import history, sent
from tests.support.gateway import Gateway, serving

LONG = " ".join(f"of the garden bed {number}" for number in range(60))
SEARCH = {
    "limit": 50,
    "offset": 0,
    "sort_by": "updated_at",
    "sort_order": "desc",
    "select": ["thread_id", "updated_at", "values", "metadata"],
}


@pytest.fixture
async def front(tmp_path: Path, database_url: str) -> AsyncIterator[Gateway]:
    sections = {"summarization": {"keep": {"type": "messages", "value": 2}}}
    async with serving(tmp_path, database_url, sections) as gateway:
        yield gateway


async def test_a_whole_chat(front: Gateway) -> None:
    async with httpx.AsyncClient(base_url=front.url, timeout=30) as http:
        features = (await http.get("/api/features")).json()
        assert features["agents_api"] == {"enabled": False}
        assert features["compaction"] == {"enabled": True}
        models = (await http.get("/api/models")).json()
        assert models["token_usage"]["enabled"] is True
        assert models["models"][0].keys() >= {"name", "model", "display_name", "supports_thinking"}
        assert (await http.post("/api/langgraph/threads/search", json=SEARCH)).json() == []

        thread_id = str(uuid.uuid4())
        created = await http.post(
            "/api/langgraph/threads", json={"thread_id": thread_id, "if_exists": "do_nothing"}
        )
        assert created.json()["thread_id"] == thread_id
        runs = [await sent(http, thread_id, f"question {number} {LONG}") for number in range(3)]

        state = (await http.post(f"/api/langgraph/threads/{thread_id}/history", json={"limit": 1})).json()
        assert len(state) == 1 and len(state[0]["values"]["messages"]) == 6
        listed = (await http.get(f"/api/langgraph/threads/{thread_id}/runs")).json()
        assert [run["run_id"] for run in listed] == runs[::-1]
        found = (await http.post("/api/langgraph/threads/search", json=SEARCH)).json()
        assert found[0].keys() == set(SEARCH["select"])  # type: ignore[call-overload]
        assert found[0]["values"]["title"].startswith("question 0")

        rows = await history(http, thread_id, 4)
        assert [(row["content"]["type"], row["run_id"]) for row in rows] == [
            (kind, run_id) for run_id in runs for kind in ("human", "ai")
        ]
        compacted = (await http.post(f"/api/threads/{thread_id}/compact")).json()
        assert compacted["compacted"] is True, compacted
        for limit in (1, 3, 4, 50):
            assert await history(http, thread_id, limit) == rows
        of_run = (await http.get(f"/api/threads/{thread_id}/runs/{runs[1]}/messages")).json()
        assert (of_run["data"], of_run["has_more"]) == (rows[2:4], False)

        usage = (await http.get(f"/api/threads/{thread_id}/token-usage")).json()
        assert usage["thread_id"] == thread_id
        assert usage["total_tokens"] == usage["total_input_tokens"] + usage["total_output_tokens"] > 0
        assert usage["total_runs"] == 3
        assert usage["by_model"]["demo"].keys() >= {"tokens", "runs"}
        assert usage["by_caller"].keys() >= {"lead_agent", "subagent", "middleware"}
        assert usage["context_usage"].keys() == {"token_count", "max_context_tokens", "percentage"}

        renamed = await http.post(
            f"/api/langgraph/threads/{thread_id}/state", json={"values": {"title": "A name"}}
        )
        assert renamed.json()["checkpoint"]["thread_id"] == thread_id
        pinned = await http.patch(f"/api/langgraph/threads/{thread_id}", json={"metadata": {"pinned": True}})
        assert (pinned.json()["metadata"]["pinned"], pinned.json()["values"]["title"]) == (True, "A name")
        assert (await http.delete(f"/api/langgraph/threads/{thread_id}")).status_code == 204
        # It removes what it thinks is left elsewhere, and takes this for success.
        assert (await http.delete(f"/api/threads/{thread_id}")).status_code == 404


async def test_a_run_is_joined_after_a_reload_and_stopped(front: Gateway) -> None:
    client = get_client(url=f"{front.url}/api/langgraph")
    thread_id = (await client.threads.create())["thread_id"]
    text: Any = {"messages": [{"role": "user", "content": "/slow 400"}]}
    run = await client.runs.create(thread_id, "lead_agent", input=text, stream_mode="messages-tuple")
    async for part in client.runs.join_stream(thread_id, run["run_id"]):
        if part.event == "messages":
            break
    await client.runs.cancel(thread_id, run["run_id"], wait=True)
    assert (await client.runs.get(thread_id, run["run_id"]))["status"] == "interrupted"


async def test_a_chat_with_tools_keeps_calls_and_results_in_their_run(front: Gateway) -> None:
    async with httpx.AsyncClient(base_url=front.url, timeout=30) as http:
        thread_id = (await http.post("/api/langgraph/threads", json={})).json()["thread_id"]
        first = await sent(http, thread_id, "/tool list_files {}")
        second = await sent(http, thread_id, "thanks")
        rows = await history(http, thread_id, 50)
        assert await history(http, thread_id, 2) == rows
        assert [(row["content"]["type"], row["run_id"]) for row in rows] == [
            *((kind, first) for kind in ("human", "ai", "tool", "ai")),
            *((kind, second) for kind in ("human", "ai")),
        ]
        answer = await http.get(f"/api/threads/{thread_id}/runs/{second}/messages", params={"limit": 1})
        assert orjson.loads(answer.content) == {"data": [rows[-1]], "has_more": True}


async def test_the_alias_is_the_api_and_nothing_else(front: Gateway) -> None:
    async with httpx.AsyncClient(base_url=front.url, timeout=30) as http:
        for path, status in (
            ("/api/langgraph/ok", 200),
            ("/api/langgraph/info", 200),
            ("/api/langgraph/models", 200),
            ("/api/langgraphs/ok", 404),
            ("/api/langgraph/langgraph/ok", 404),
            ("/langgraph/ok", 404),
        ):
            assert (await http.get(path)).status_code == status, path
        for path in ("messages/page", "runs/3f1c2a52-1111-4222-8333-444455556666/messages", "token-usage"):
            missing = f"/api/threads/3f1c2a52-1111-4222-8333-444455556666/{path}"
            assert (await http.get(missing)).status_code == 404
        wrong = await http.get(
            "/api/threads/3f1c2a52-1111-4222-8333-444455556666/messages/page?before_seq=0&limit=x"
        )
        assert wrong.status_code == 422
        assert "query.before_seq" in wrong.json()["detail"]
