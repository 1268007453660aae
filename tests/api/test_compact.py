"""``POST /compact`` where it answers 200: what was done, or why nothing was (section I)."""

from __future__ import annotations

import json

import pytest

from tests.support.answers import Reply
from tests.support.rig import SMALL, Rig, rigged, shared_rig
from tests.support.threads import SUMMARY, new_thread, talk, tool_round

pytestmark = pytest.mark.asyncio(loop_scope="module")

HISTORY = talk(20)
FIELDS = {
    "thread_id",
    "compacted",
    "reason",
    "removed_message_count",
    "preserved_message_count",
    "summary_updated",
    "checkpoint_id",
    "total_tokens",
    "tokens_after",
    "compaction_id",
    "model_name",
    "coverage",
    "duration_ms",
}


served = shared_rig("compact", SMALL)


untriggered = shared_rig("untriggered", {"keep": {"type": "messages", "value": 4}})


async def test_every_field_of_the_answer_says_what_was_done(rig: Rig) -> None:
    async with new_thread(rig.gateway, HISTORY) as thread:
        before = await thread.context()
        done = await thread.compacted()
        after = await thread.context()
        state = await thread.state()
        assert set(done) == FIELDS
        assert done["thread_id"] == thread.id
        assert (done["compacted"], done["reason"], done["summary_updated"]) == (True, None, True)
        kept = state["values"]["messages"]
        assert done["preserved_message_count"] == len(kept)
        assert done["removed_message_count"] == len(HISTORY) - len(kept)
        assert kept == [
            {**message, **{name: kept[index][name] for name in kept[index] if name not in message}}
            for index, message in enumerate(HISTORY[-len(kept) :])
        ]
        assert done["checkpoint_id"] == state["checkpoint"]["checkpoint_id"]
        assert done["total_tokens"] == before["tokens"]["total"]
        assert done["tokens_after"] == after["tokens"]["total"] < before["tokens"]["total"]
        assert done["model_name"] == "main"
        assert done["coverage"] == 1.0
        assert done["duration_ms"] >= 0
        assert state["values"]["summary_text"] == SUMMARY
        assert state["next"] == []
        record = await thread.record(done["compaction_id"])
        assert (record["status"], record["kind"], record["summary_text"]) == ("committed", "manual", SUMMARY)
        assert after["last_compaction_id"] == done["compaction_id"]


async def test_the_context_report_and_the_trigger_count_alike(rig: Rig) -> None:
    async with new_thread(rig.gateway, HISTORY) as thread:
        report = await thread.context()
        parts = report["tokens"]
        assert parts["total"] == sum(
            parts[name] for name in ("system", "tools", "summary", "durable", "messages")
        )
        assert report["trigger"] == [{"type": "tokens", "value": 3000, "tokens": 3000}]
        assert (report["next_trigger_tokens"], report["window"]) == (3000, None)
        assert report["percent"] == pytest.approx(100 * parts["total"] / 3000, abs=0.1)
        assert report["message_count"] == len(HISTORY)
        await thread.compacted()
        report = await thread.context()
        assert report["tokens"]["summary"] > 0
        assert report["tokens"]["durable"] > 0
        assert report["message_count"] == len(await thread.messages()) + 1


async def test_the_report_is_of_a_whole_request_on_an_empty_thread_too(rig: Rig) -> None:
    async with new_thread(rig.gateway) as thread:
        report = await thread.context()
        assert report["tokens"]["system"] > 100
        assert report["tokens"]["tools"] > 300
        assert (report["tokens"]["messages"], report["message_count"]) == (0, 0)
        assert report["last_compaction_id"] is report["last_error"] is None
        assert report["breaker"] == {"open": False, "failures": 0, "retry_at": None}


@pytest.mark.parametrize("body", [b"", b"{}", b"null"])
async def test_the_body_may_be_missing_or_empty(rig: Rig, body: bytes) -> None:
    async with new_thread(rig.gateway, HISTORY) as thread:
        response = await thread.http.post(
            f"/threads/{thread.id}/compact", content=body, headers={"content-type": "application/json"}
        )
        assert response.status_code == 200, response.text
        assert response.json()["compacted"]


async def test_nothing_is_due_below_the_trigger_unless_forced(rig: Rig) -> None:
    async with new_thread(rig.gateway, talk(6)) as thread:
        before = await thread.state()
        skipped = await thread.compacted(force=False)
        assert set(skipped) == FIELDS
        assert (skipped["compacted"], skipped["reason"]) == (False, "below_threshold")
        assert (
            skipped["total_tokens"] == skipped["tokens_after"] == (await thread.context())["tokens"]["total"]
        )
        assert (skipped["removed_message_count"], skipped["preserved_message_count"]) == (0, 12)
        assert skipped["summary_updated"] is False
        assert skipped["compaction_id"] is skipped["model_name"] is skipped["coverage"] is None
        assert skipped["checkpoint_id"] == before["checkpoint"]["checkpoint_id"]
        assert await thread.state() == before
        assert rig.summary_calls() == []
        assert (await thread.compacted())["compacted"]


async def test_what_is_due_is_done_without_force(rig: Rig) -> None:
    async with new_thread(rig.gateway, HISTORY) as thread:
        assert (await thread.compacted(force=False))["compacted"]
        (record,) = await thread.records()
        assert record["trigger"] == "tokens >= 3000"


async def test_without_any_trigger_only_force_compacts(untriggered: Rig) -> None:
    async with new_thread(untriggered.gateway, HISTORY) as thread:
        assert (await thread.compacted(force=False))["reason"] == "below_threshold"
        assert (await thread.compacted())["compacted"]


async def test_without_any_trigger_a_run_never_compacts(untriggered: Rig) -> None:
    untriggered.reset()
    async with new_thread(untriggered.gateway, talk(60)) as thread:
        await thread.run()
        assert await thread.records() == []
        assert (await thread.context())["percent"] is None


@pytest.mark.parametrize("messages", [[], talk(1), talk(2)], ids=["empty", "one exchange", "as many as kept"])
async def test_too_few_messages_are_left_alone(untriggered: Rig, messages: list[dict[str, object]]) -> None:
    untriggered.reset()
    async with new_thread(untriggered.gateway, messages) as thread:
        skipped = await thread.compacted()
        assert (skipped["compacted"], skipped["reason"]) == (False, "not_enough_messages")
        assert skipped["preserved_message_count"] == len(messages)
        assert untriggered.summary_calls() == []


async def test_an_empty_thread_has_no_checkpoint_to_name(rig: Rig) -> None:
    async with new_thread(rig.gateway) as thread:
        skipped = await thread.compacted()
        assert (skipped["reason"], skipped["checkpoint_id"]) == ("not_enough_messages", None)


async def test_a_second_compaction_right_after_the_first_finds_nothing(rig: Rig) -> None:
    async with new_thread(rig.gateway, HISTORY) as thread:
        assert (await thread.compacted())["compacted"]
        before = await thread.state()
        rig.mark()
        for force in (True, False):
            skipped = await thread.compacted(force=force)
            assert skipped["reason"] == ("nothing_to_remove" if force else "below_threshold")
        assert rig.summary_calls() == []
        assert await thread.state() == before


async def test_a_second_compaction_after_a_run_finds_what_the_run_added(rig: Rig) -> None:
    async with new_thread(rig.gateway, HISTORY) as thread:
        await thread.run()
        await thread.put(talk(12, start=20))
        rig.summarizer(Reply("The garden has forty beds, twelve of them planted."))
        assert (await thread.compacted())["compacted"]
        assert (await thread.values())["summary_text"].startswith("The garden has forty beds, twelve")
        assert [record["kind"] for record in await thread.records()] == ["manual", "auto"]


async def test_too_little_gain_is_an_answer_and_no_error(
    tmp_path_factory: pytest.TempPathFactory, database_template: str
) -> None:
    folder = tmp_path_factory.mktemp("gain")
    summarization = {**SMALL, "min_gain_fraction": 0.9}
    async with (
        rigged(folder, database_template, summarization) as rig,
        new_thread(rig.gateway, HISTORY) as thread,
    ):
        before = await thread.state()
        skipped = await thread.compacted()
        assert (skipped["compacted"], skipped["reason"]) == (False, "insufficient_gain")
        assert await thread.state() == before


@pytest.mark.parametrize(
    ("keep", "kept"),
    [
        ({"type": "messages", "value": 2}, 2),
        ({"type": "messages", "value": 6}, 6),
        ({"type": "messages", "value": 6.0}, 6),
        ({"type": "tokens", "value": 600}, 4),
        ({"type": "tokens", "value": 1}, 2),
    ],
    ids=str,
)
async def test_keep_is_for_this_call_only(untriggered: Rig, keep: dict[str, object], kept: int) -> None:
    """Tokens too few for a message keep the last one, with the question it answers: it is the newest request."""
    async with new_thread(untriggered.gateway, HISTORY) as thread:
        assert (await thread.compacted(keep=keep))["preserved_message_count"] == kept
        await thread.put(talk(10, start=20))
        assert (await thread.compacted())["preserved_message_count"] == 4


async def test_a_fraction_to_keep_without_a_known_window_is_the_default(untriggered: Rig) -> None:
    async with new_thread(untriggered.gateway, HISTORY) as thread:
        done = await thread.compacted(keep={"type": "fraction", "value": 0.1})
        assert done["preserved_message_count"] == 20


async def test_fractions_are_of_the_window_with_the_reply_in_it(
    tmp_path_factory: pytest.TempPathFactory, database_template: str
) -> None:
    folder = tmp_path_factory.mktemp("window")
    summarization = {**SMALL, "trigger": {"type": "fraction", "value": 0.5}}
    window = {"context_window": 8000, "max_tokens": 1000}
    async with (
        rigged(folder, database_template, summarization, model=window) as rig,
        new_thread(rig.gateway, talk(8)) as thread,
    ):
        report = await thread.context()
        assert report["trigger"] == [{"type": "fraction", "value": 0.5, "tokens": 4000}]
        assert (report["window"], report["tokens"]["reserved"]) == (8000, 1000)
        total = report["tokens"]["total"]
        assert report["percent"] == pytest.approx(100 * (total + 1000) / 8000, abs=0.1)
        assert total < 3000
        assert (await thread.compacted(force=False))["reason"] == "below_threshold"
        await thread.put(talk(4, start=8))
        assert 3000 <= (await thread.context())["tokens"]["total"] < 4000
        done = await thread.compacted(force=False)
        assert done["compacted"]
        assert done["tokens_after"] <= 0.5 * 4000 - 0.5 * 1000
        (record,) = [r for r in await thread.records() if r["status"] == "committed"]
        assert record["trigger"] == "fraction >= 0.5"


async def test_instructions_are_the_focus_of_this_call(rig: Rig) -> None:
    async with new_thread(rig.gateway, HISTORY) as thread:
        focus = "Mind </new_messages> the {braces} & the prices."
        done = await thread.compacted(instructions=f"  {focus}  ")
        (call,) = rig.summary_calls()
        assert "{braces} & the prices." in call.text
        assert call.text.count("</new_messages>") == 1
        assert (await thread.record(done["compaction_id"]))["instructions"] == focus
        await thread.put(talk(20, start=20))
        rig.mark()
        await thread.compacted(instructions="   ")
        assert "the prices" not in rig.summary_calls()[0].text


async def test_a_history_of_tool_rounds_keeps_each_call_with_its_results(rig: Rig) -> None:
    question = {"type": "human", "id": "question", "content": "Read all of them."}
    rounds = [message for number in range(12) for message in tool_round(number, 900, calls=2)]
    async with new_thread(rig.gateway, [question, *rounds]) as thread:
        done = await thread.compacted()
        messages = await thread.messages()
        assert messages[0]["id"] == "question"
        called = [call["id"] for message in messages for call in message.get("tool_calls") or []]
        assert called == [message["tool_call_id"] for message in messages if message["type"] == "tool"]
        record = await thread.record(done["compaction_id"])
        assert len(record["removed_messages"]) + len(messages) == 1 + len(rounds)


async def test_records_are_paged_newest_first(rig: Rig) -> None:
    async with new_thread(rig.gateway, HISTORY) as thread:
        for number in range(1, 4):
            rig.summarizer(Reply(f"Part {number} of the garden is planted."))
            await thread.compacted()
            await thread.put(talk(20, start=20 * number))
        path = f"/threads/{thread.id}/compactions"
        whole = (await thread.http.get(path)).json()
        first = (await thread.http.get(path, params={"limit": 2})).json()
        rest = (
            await thread.http.get(path, params={"limit": 2, "before": first["data"][-1]["compaction_id"]})
        ).json()
        assert [first["has_more"], rest["has_more"], whole["has_more"]] == [True, False, False]
        assert first["data"] + rest["data"] == whole["data"]
        assert len(whole["data"]) == 3
        assert "summary_text" not in json.dumps(whole)
        texts = [(await thread.record(r["compaction_id"]))["summary_text"] for r in whole["data"]]
        assert texts == [f"Part {number} of the garden is planted." for number in (3, 2, 1)]
