"""What clients see of a compaction, and what they never see (rules E6, F2, F4)."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest

from app.services.runs.graph_events import STREAM_MODES
from tests.support.answers import Reply
from tests.support.rig import SMALL, Rig, rigged, shared_rig
from tests.support.threads import SUMMARY, Thread, events_of, new_thread, statuses, talk

pytestmark = pytest.mark.asyncio(loop_scope="module")

HISTORY = talk(20)
# Without what all agents have: figures of its requests depend on the conversation alone.
BARE = {"name": "agent", "tools": [], "skills": [], "subagents": []}
FIGURES = (
    "tokens_before",
    "tokens_after",
    "removed_message_count",
    "preserved_message_count",
    "coverage",
    "duration_ms",
    "trigger",
    "model_name",
    "extractive",
)
LONG_SUMMARY = "\n".join(f"Decision {number}: bed {number} gets plant {number * 7}." for number in range(40))


served = shared_rig("streams", SMALL)


def dicts(value: Any) -> Iterator[dict[str, Any]]:
    """Every object anywhere in the value."""
    match value:
        case dict():
            yield value
            for inner in value.values():
                yield from dicts(inner)
        case list():
            for inner in value:
                yield from dicts(inner)


@pytest.mark.parametrize("subgraphs", [False, True])
async def test_no_token_of_a_summary_reaches_a_client_in_any_mode(rig: Rig, subgraphs: bool) -> None:
    async with new_thread(rig.gateway, HISTORY) as thread:
        parts = await thread.run(modes=STREAM_MODES, stream_subgraphs=subgraphs)
        assert statuses(parts) == ["started", "completed"]
        messages = [part.data for part in parts if part.event.startswith("messages")]
        assert messages
        assert "garden" not in json.dumps(messages)
        assert "remove" not in [found.get("type") for found in dicts(messages)]
        everything = [found for part in parts for found in dicts(part.data)]
        assert not [
            found
            for found in everything
            if found.get("type") in ("ai", "AIMessageChunk") and "garden" in str(found.get("content"))
        ]
        assert [found["content"] for found in everything if found.get("name") == "summary"] == []
        custom = [part.data for part in parts if part.event == "custom"]
        assert SUMMARY not in json.dumps(custom)
        assert {event["type"] for event in custom} == {"context_compaction"}


async def test_a_summary_is_not_even_streamed_by_the_provider(rig: Rig) -> None:
    async with new_thread(rig.gateway, HISTORY) as thread:
        await thread.run(modes=["messages-tuple"])
        (summary,), (agent,) = rig.summary_calls(), rig.agent_calls()
        assert not summary.stream
        assert not summary.body.get("tools")
        assert agent.stream


async def test_the_summary_is_state_and_data_of_the_request_but_never_a_message(rig: Rig) -> None:
    async with new_thread(rig.gateway, HISTORY) as thread:
        parts = await thread.run(modes=["values"])
        values = parts[-2].data
        assert values["summary_text"] == SUMMARY
        assert "garden" not in json.dumps(values["messages"])
        assert not any(message["name"] == "summary" for message in values["messages"])
        (request,) = rig.agent_calls()
        roles = [message["role"] for message in request.messages]
        assert roles[:3] == ["system", "system", "user"]
        (carrier,) = [message for message in request.messages if "garden" in str(message["content"])]
        assert carrier["role"] == "user"
        assert carrier["content"].startswith("<durable_context_data>")


async def test_events_tell_what_the_record_keeps(rig: Rig) -> None:
    async with new_thread(rig.gateway, HISTORY) as thread:
        parts = await thread.run(modes=["custom", "updates"])
        started, completed = events_of(parts)
        (record,) = await thread.records()
        (run,) = await thread.client.runs.list(thread.id)
        assert (started["status"], completed["status"]) == ("started", "completed")
        assert started["tokens_before"] == completed["tokens_before"]
        for event in (started, completed):
            assert event["compaction_id"] == record["compaction_id"]
            assert event["thread_id"] == thread.id
            assert event["kind"] == "auto"
        assert {name: completed[name] for name in FIGURES} == {name: record[name] for name in FIGURES}
        assert record["run_id"] == run["run_id"]
        assert record["status"] == "committed"
        assert record["trigger"] == "tokens >= 3000"
        assert record["coverage"] == 1.0
        assert record["tokens_after"] < 1500 + 300 < record["tokens_before"]
        assert record["removed_message_count"] + record["preserved_message_count"] == len(HISTORY) + 1
        assert record["models_tried"] == [{"name": "main", "error": None}]
        assert record["duration_ms"] >= 0
        assert record["instructions"] is record["reason"] is record["error"] is None


async def test_the_update_stands_under_the_name_that_front_ends_look_for(rig: Rig) -> None:
    async with new_thread(rig.gateway, HISTORY) as thread:
        parts = await thread.run(modes=["updates", "custom"])
        names = [part.event if part.event == "custom" else next(iter(part.data or {}), "") for part in parts]
        at = names.index("SummarizationMiddleware.before_model")
        assert names[at - 2 : at] == ["custom", "custom"]
        update = parts[at].data["SummarizationMiddleware.before_model"]
        assert update["summary_text"] == SUMMARY
        assert update["messages"][0]["type"] == "remove"
        assert "model" in names[at:]


async def test_checkpoints_before_and_after_are_named_and_marked(rig: Rig) -> None:
    async with new_thread(rig.gateway, HISTORY) as thread:
        await thread.run("What is next?")
        (record,) = await thread.records()
        before = await checkpoint(thread, record["checkpoint_before"])
        after = await checkpoint(thread, record["checkpoint_after"])
        assert after["parent_checkpoint"]["checkpoint_id"] == record["checkpoint_before"]
        assert len(before["values"]["messages"]) == len(HISTORY) + 1
        assert not before["values"].get("summary_text")
        assert after["values"]["summary_text"] == SUMMARY
        assert len(after["values"]["messages"]) == record["preserved_message_count"]
        marked = [
            found["checkpoint"]["checkpoint_id"]
            for found in await thread.client.threads.get_history(thread.id, limit=50)
            if found["metadata"].get("compaction_id")
        ]
        assert marked == [record["checkpoint_after"]]
        assert after["metadata"]["compaction_id"] == record["compaction_id"]
        assert (await thread.context())["last_compaction_id"] == record["compaction_id"]


async def test_a_manual_compaction_names_its_checkpoints_too(rig: Rig) -> None:
    async with new_thread(rig.gateway, HISTORY) as thread:
        head = (await thread.state())["checkpoint"]["checkpoint_id"]
        done = await thread.compacted(instructions="Keep the plant names.")
        record = await thread.record(done["compaction_id"])
        assert record["checkpoint_before"] == head
        assert record["checkpoint_after"] == done["checkpoint_id"]
        assert record["checkpoint_after"] == (await thread.state())["checkpoint"]["checkpoint_id"]
        assert (await thread.state())["metadata"]["compaction_id"] == done["compaction_id"]
        assert (await thread.state())["next"] == []
        assert record["instructions"] == "Keep the plant names."
        assert (record["kind"], record["run_id"]) == ("manual", None)
        assert "Keep the plant names." in rig.summary_calls()[0].text


async def checkpoint(thread: Thread, checkpoint_id: str) -> dict[str, Any]:
    return await thread.client.threads.get_state(thread.id, checkpoint_id=checkpoint_id)  # type: ignore[return-value]


async def test_summaries_are_paid_on_the_record_and_not_on_the_run(rig: Rig) -> None:
    rig.summarizer(Reply(SUMMARY, usage=(7000, 70)))
    rig.agent(Reply("ok", usage=(1500, 5)))
    async with new_thread(rig.gateway, HISTORY) as thread:
        await thread.run()
        (record,) = await thread.records()
        assert record["usage"] == {"input_tokens": 7000, "output_tokens": 70, "total_tokens": 7070}
        used = (await usage_of_runs(rig, thread))["main"]
        assert (used["input_tokens"], used["output_tokens"], used["total_tokens"]) == (1500, 5, 1505)


async def test_a_refused_summary_was_paid_for_all_the_same(rig: Rig) -> None:
    rig.summarizer(Reply("", usage=(7000, 70)))
    async with new_thread(rig.gateway, HISTORY) as thread:
        assert (await thread.compact()).status_code == 502
        (record,) = await thread.records()
        assert record["usage"]["total_tokens"] == 7070


async def usage_of_runs(rig: Rig, thread: Thread) -> dict[str, Any]:
    async with rig.gateway.core.database.pool.connection() as conn:
        cursor = await conn.execute("SELECT usage FROM runs WHERE thread_id = %s", (thread.id,))
        return (await cursor.fetchall())[0]["usage"]  # type: ignore[no-any-return]


async def test_an_answer_too_long_to_gain_anything_is_reported_as_skipped(
    tmp_path_factory: pytest.TempPathFactory, database_template: str
) -> None:
    summarization = {**SMALL, "min_gain_fraction": 0.85}
    folder = tmp_path_factory.mktemp("gain")
    async with (
        rigged(folder, database_template, summarization, agents=[BARE]) as rig,
        new_thread(rig.gateway, talk(20)) as thread,
    ):
        rig.summarizer(Reply(LONG_SUMMARY))
        before = await thread.messages()
        parts = await thread.run()
        assert statuses(parts) == ["started", "skipped"]
        skipped = events_of(parts)[1]
        assert skipped["reason"] == "insufficient_gain"
        assert (await thread.messages())[: len(before)] == before
        (record,) = await thread.records()
        assert (record["status"], record["reason"]) == ("skipped", "insufficient_gain")
        assert record["usage"]["total_tokens"] > 0
        assert (await thread.context())["breaker"]["failures"] == 1
