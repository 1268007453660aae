"""Real conversations are imported as they are."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from langgraph_sdk.client import LangGraphClient

from tests.support.gateway import Gateway

# Transcripts that are not part of the repository; the tests of them are skipped where there are none.
FOLDER = Path(__file__).resolve().parents[3] / "shared/data/transcripts"
FILES = sorted(FOLDER.glob("*.json"))
OWN = {
    "messages": [
        {"type": "system", "content": "You sort mail.", "id": "m0"},
        {"type": "human", "content": [{"type": "text", "text": "Sort the inbox"}], "id": "m1"},
        {
            "type": "ai",
            "content": "",
            "id": "m2",
            "tool_calls": [
                {"name": "list", "args": {"folder": "inbox", "limit": None}, "id": "c1", "type": "tool_call"},
                {"name": "list", "args": {"folder": "spam"}, "id": "c2", "type": "tool_call"},
            ],
            "usage_metadata": {"input_tokens": 100, "output_tokens": 20, "total_tokens": 120},
            "additional_kwargs": {"reasoning_content": "First look."},
        },
        {
            "type": "tool",
            "content": "3 letters",
            "id": "m3",
            "tool_call_id": "c1",
            "name": "list",
            "status": "success",
        },
        {
            "type": "tool",
            "content": "no such folder",
            "id": "m4",
            "tool_call_id": "c2",
            "name": "list",
            "status": "error",
        },
        {"type": "ai", "content": "收件箱里有三封信。", "id": "m5"},
    ]
}


pytestmark = pytest.mark.asyncio(loop_scope="module")


@pytest.fixture
def idle_gateway(shared_gateway: Gateway) -> Gateway:
    """Every test has a thread of its own, so one service does for all of them."""
    return shared_gateway


def transcripts() -> list[Any]:
    return [pytest.param(OWN, id="own"), *(pytest.param(path, id=path.stem) for path in FILES)]


@pytest.mark.parametrize("source", transcripts())
async def test_an_imported_transcript_is_read_back_message_by_message(
    client: LangGraphClient, source: dict[str, Any] | Path
) -> None:
    transcript = json.loads(source.read_text()) if isinstance(source, Path) else source
    given = transcript["messages"]
    thread = await client.threads.create()
    await client.threads.update_state(thread["thread_id"], {"messages": given})
    state = await client.threads.get_state(thread["thread_id"])
    kept = state["values"]["messages"]
    assert len(kept) == len(given)
    for message, original in zip(kept, given, strict=True):
        assert {name: message[name] for name in original} == original
    assert state["next"] == []
