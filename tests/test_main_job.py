"""What the service is for, on real conversations: import, run, automatic and manual compaction, restart."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.support.service import Process, config, running
from tests.support.transcripts import Transcript, load_shared_transcripts, shipped

SUMMARIZATION = {
    "trigger": [{"type": "tokens", "value": 32000}],
    "keep": {"type": "messages", "value": 10},
    "trim_tokens_to_summarize": 15564,
}
QUESTION = {"messages": [{"role": "user", "content": "What were we doing, and what is next?"}]}


async def imported(client: Any, transcript: Transcript) -> str:
    thread_id = (await client.threads.create(metadata={"transcript": transcript.name}))["thread_id"]
    await client.threads.update_state(thread_id, {"messages": list(transcript.messages)})
    state = await client.threads.get_state(thread_id)
    assert state["next"] == []
    assert len(state["values"]["messages"]) == len(transcript.messages)
    return str(thread_id)


async def answered(client: Any, thread_id: str) -> list[dict[str, Any]]:
    """Run the question; the ``custom`` events of the stream."""
    parts = [
        part
        async for part in client.runs.stream(
            thread_id, "agent", input=QUESTION, stream_mode=["messages-tuple", "updates", "custom"]
        )
    ]
    assert parts[-1].event == "end", parts[-2:]
    assert [part for part in parts if part.event == "error"] == []
    assert any(part.event == "messages" for part in parts)
    return [part.data for part in parts if part.event == "custom"]


async def worked_through(service: Process, transcript: Transcript) -> dict[str, Any]:
    """The whole job on one conversation; returns the values of the thread at the end."""
    client = service.client()
    thread_id = await imported(client, transcript)
    async with service.http() as http:
        before = (await http.get(f"/threads/{thread_id}/context")).json()
        trigger = before["next_trigger_tokens"]
        events = await answered(client, thread_id)
        told = [event for event in events if event["type"] == "context_compaction"]
        # The question itself can be what reaches the trigger.
        due = before["tokens"]["total"] >= trigger or bool(told)
        assert [event["status"] for event in told] == (["started", "completed"] if due else []), (
            before,
            events,
        )
        assert not told or told[0]["tokens_before"] >= trigger
        manual = (await http.post(f"/threads/{thread_id}/compact", json={"force": True})).json()
        after = (await http.get(f"/threads/{thread_id}/context")).json()
        assert manual["total_tokens"] >= manual["tokens_after"]
        assert manual["compacted"] or manual["reason"], manual
        if due:
            assert after["tokens"]["total"] < 32000
        records = (await http.get(f"/threads/{thread_id}/compactions")).json()["data"]
        committed = [record for record in records if record["status"] == "committed"]
        assert len(committed) == due + manual["compacted"]
        assert all(record["coverage"] > 0 for record in committed)
        await nothing_is_lost(http, thread_id, transcript, committed)
    await answered(client, thread_id)
    state = await client.threads.get_state(thread_id)
    assert state["values"]["messages"][-1]["type"] == "ai"
    return {"thread_id": thread_id, "values": state["values"]}


async def nothing_is_lost(
    http: httpx.AsyncClient, thread_id: str, transcript: Transcript, committed: Sequence[dict[str, Any]]
) -> None:
    """Every imported message is live or archived, word for word."""
    state = (await http.get(f"/threads/{thread_id}/state")).json()
    found = {message["id"]: message["content"] for message in state["values"]["messages"]}
    for record in committed:
        whole = (await http.get(f"/threads/{thread_id}/compactions/{record['compaction_id']}")).json()
        assert whole["summary_text"]
        found |= {message["id"]: message["content"] for message in whole["removed_messages"]}
    for message in transcript.messages:
        assert found[message["id"]] == message["content"]


async def do_the_job(folder: Path, transcripts: Sequence[Transcript]) -> None:
    settings = config(summarization=SUMMARIZATION)
    async with running(folder, settings) as service:
        done = [await worked_through(service, transcript) for transcript in transcripts]
    async with running(folder, settings) as service:
        client = service.client()
        for job in done:
            state = await client.threads.get_state(job["thread_id"])
            assert state["values"] == job["values"]
        await answered(client, done[0]["thread_id"])


@pytest.mark.timeout(180)
async def test_a_shipped_conversation_is_worked_through_and_survives_a_restart(open_folder: Path) -> None:
    await do_the_job(open_folder, [shipped()])


@pytest.mark.timeout(600)
async def test_real_conversations_are_worked_through_and_survive_a_restart(open_folder: Path) -> None:
    transcripts = list(load_shared_transcripts())
    if not transcripts:
        pytest.skip("no folder of real conversations here (THREADKEEP_TRANSCRIPTS)")
    await do_the_job(open_folder, transcripts)
