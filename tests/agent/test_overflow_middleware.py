"""A request that does not fit the window is compacted and asked again, once (rule E7)."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.support.answers import Fail, Reply, Request, answer_of
from tests.support.overflow_shapes import LOOKALIKES, OVERFLOWS, ErrorShape
from tests.support.rig import SMALL, Rig, shared_rig
from tests.support.threads import SUMMARY, Message, Thread, events_of, new_thread, statuses, talk

pytestmark = pytest.mark.asyncio(loop_scope="module")

HISTORY = talk(12)
"""A request of about 2,700 tokens as the stand-in counts them."""
LIMIT = 2000
NEVER = {**SMALL, "trigger": {"type": "tokens", "value": 100_000}}
SHAPES = list({(shape.status, shape.in_stream): shape for shape in OVERFLOWS}.values())


def fits(request: Request) -> bool:
    return request.tokens <= LIMIT


served = shared_rig("overflow", NEVER, retries=0)


def error_of(parts: list[Any]) -> dict[str, Any]:
    (error,) = [part.data for part in parts if part.event == "error"]
    return error  # type: ignore[no-any-return]


async def unchanged(thread: Thread, before: list[Message], question: str) -> None:
    """The thread holds what it held, and the question that could not be answered."""
    values = await thread.values()
    assert values["messages"][:-1] == before
    assert values["messages"][-1]["content"] == question
    assert not values.get("summary_text")


@pytest.mark.parametrize("shape", SHAPES, ids=str)
async def test_an_overflow_of_any_shape_is_recovered_with_a_smaller_request(
    rig: Rig, shape: ErrorShape
) -> None:
    rig.agent(lambda request: Reply("done") if fits(request) else answer_of(shape))
    async with new_thread(rig.gateway, HISTORY) as thread:
        parts = await thread.run("What is next?", modes=["custom", "updates", "values", "messages-tuple"])
        assert statuses(parts) == ["started", "completed"]
        assert [part.event for part in parts if part.event in ("error", "end")] == ["end"]
        first, *_, second = rig.agent_calls()
        assert second.tokens < first.tokens
        values = await thread.values()
        assert [message["content"] for message in values["messages"]][-2:] == ["What is next?", "done"]
        assert values["summary_text"] == SUMMARY
        (record,) = await thread.records()
        assert (record["kind"], record["status"], record["extractive"]) == ("overflow", "committed", False)
        assert record["trigger"] is None


async def test_state_holds_what_was_kept_and_the_reply_in_order_and_once(rig: Rig) -> None:
    rig.provider.limit(LIMIT)
    async with new_thread(rig.gateway, HISTORY) as thread:
        parts = await thread.run("What is next?", modes=["values", "updates", "messages-tuple"])
        messages = await thread.messages()
        *kept, question, reply = messages
        assert [message["id"] for message in HISTORY][-len(kept) :] == [
            message["id"] for message in kept
        ] or not kept
        assert (question["content"], reply["content"]) == ("What is next?", "ok")
        assert parts[-2].data["messages"] == messages
        (update,) = [part.data["model"] for part in parts if part.event == "updates" and "model" in part.data]
        assert [message["type"] for message in update["messages"]] == [
            "remove",
            *(m["type"] for m in messages),
        ]
        assert update["summary_text"] == SUMMARY
        streamed = {part.data[0]["id"] for part in parts if part.event == "messages"}
        assert streamed == {reply["id"]}
        (record,) = await thread.records()
        assert record["checkpoint_after"] == (await thread.state())["checkpoint"]["checkpoint_id"]
        assert record["preserved_message_count"] == len(kept) + 1
        archived = (await thread.record(record["compaction_id"]))["removed_messages"]
        assert [m["id"] for m in archived] + [m["id"] for m in kept] == [m["id"] for m in HISTORY]


async def test_the_thread_goes_on_as_usual_afterwards(rig: Rig) -> None:
    rig.provider.limit(LIMIT)
    async with new_thread(rig.gateway, HISTORY) as thread:
        await thread.run()
        rig.mark()
        parts = await thread.run("And then?")
        assert statuses(parts) == []
        (request,) = rig.agent_calls()
        assert SUMMARY.splitlines()[1] in request.text
        assert [message["type"] for message in await thread.messages()][-4:] == ["human", "ai", "human", "ai"]


async def test_without_any_summariser_an_excerpt_is_committed_and_marked(rig: Rig) -> None:
    rig.summarizer(Fail(401))
    rig.agent(lambda request: Reply("done") if fits(request) else answer_of(OVERFLOWS[0]))
    async with new_thread(rig.gateway, HISTORY) as thread:
        parts = await thread.run()
        assert statuses(parts) == ["started", "completed"]
        assert events_of(parts)[-1]["extractive"] is True
        values = await thread.values()
        assert values["messages"][-1]["content"] == "done"
        assert "Question" in values["summary_text"]
        (record,) = await thread.records()
        assert record["extractive"] is True
        assert (record["status"], record["model_name"], record["coverage"]) == ("committed", None, 0.0)
        assert record["models_tried"][0]["name"] == "main"
        assert "401" in record["models_tried"][0]["error"]


async def test_a_summariser_with_the_same_window_reads_less_and_the_recovery_goes_on(rig: Rig) -> None:
    rig.provider.limit(1500)
    async with new_thread(rig.gateway, HISTORY) as thread:
        assert statuses(await thread.run()) == ["started", "completed"]
        assert (await thread.messages())[-1]["content"] == "ok"
        assert [call.tokens <= 1500 for call in rig.agent_calls()] == [False, True]
        assert [call.tokens <= 1500 for call in rig.summary_calls()][:2] == [False, True]


async def test_an_open_breaker_does_not_stop_the_recovery(rig: Rig) -> None:
    async with new_thread(rig.gateway, HISTORY) as thread:
        async with rig.gateway.core.database.pool.connection() as conn:
            await conn.execute(
                "UPDATE threads SET compaction_failures = 9, compaction_retry_at = now() + interval '1 h' "
                "WHERE thread_id = %s",
                (thread.id,),
            )
        assert (await thread.context())["breaker"]["open"]
        rig.provider.limit(LIMIT)
        assert statuses(await thread.run()) == ["started", "completed"]
        assert not (await thread.context())["breaker"]["open"]


async def test_what_still_does_not_fit_ends_the_run_with_what_fills_the_window(rig: Rig) -> None:
    rig.agent(answer_of(OVERFLOWS[0]))
    async with new_thread(rig.gateway, HISTORY) as thread:
        before = await thread.messages()
        parts = await thread.run("What is next?")
        error = error_of(parts)
        assert (error["error"], error["code"]) == ("ContextOverflow", "context_overflow")
        for part in ("system prompt", "tools", "summary", "the newest user message", "even after compaction"):
            assert part in error["message"]
        assert statuses(parts) == ["started", "failed"]
        assert len(rig.agent_calls()) == 2
        await unchanged(thread, before, "What is next?")
        (record,) = await thread.records()
        assert (record["status"], record["reason"]) == ("failed", "not_committed")
        assert (await thread.client.threads.get(thread.id))["status"] == "error"
        rig.reset()
        assert error_free(await thread.run("Try again."))
        assert (await thread.messages())[-1]["content"] == "ok"


def error_free(parts: list[Any]) -> bool:
    return [part for part in parts if part.event == "error"] == []


async def test_what_an_abandoned_recovery_archived_belongs_to_the_next_one(rig: Rig) -> None:
    rig.agent(answer_of(OVERFLOWS[0]))
    async with new_thread(rig.gateway, HISTORY) as thread:
        await thread.run("What is next?")
        rig.reset()
        done = await thread.compacted()
        record = await thread.record(done["compaction_id"])
        assert len(record["removed_messages"]) == done["removed_message_count"]
        live = await thread.ids()
        assert [m["id"] for m in record["removed_messages"]] + live[:-1] == [m["id"] for m in HISTORY]


async def test_another_failure_of_the_second_request_is_told_as_it_is(rig: Rig) -> None:
    rig.agent(
        lambda request: (
            Fail(401, {"error": {"message": "Bad key."}}) if fits(request) else answer_of(OVERFLOWS[0])
        )
    )
    async with new_thread(rig.gateway, HISTORY) as thread:
        before = await thread.messages()
        parts = await thread.run("What is next?")
        assert "Bad key." in error_of(parts)["message"]
        assert statuses(parts) == ["started", "failed"]
        await unchanged(thread, before, "What is next?")


async def test_a_single_message_larger_than_the_window_is_an_error_at_once(rig: Rig) -> None:
    rig.provider.limit(LIMIT)
    async with new_thread(rig.gateway) as thread:
        question = json.dumps(HISTORY)
        parts = await thread.run(question)
        error = error_of(parts)
        assert error["code"] == "context_overflow"
        assert "could not be compacted" in error["message"]
        assert "the newest user message" in error["message"]
        assert statuses(parts) == ["skipped"]
        assert (len(rig.agent_calls()), len(rig.summary_calls())) == (1, 0)
        await unchanged(thread, [], question)


async def test_the_live_summary_is_folded_into_the_new_one(rig: Rig) -> None:
    rig.summarizer(Reply("The first half was about apples."))
    async with new_thread(rig.gateway, talk(12)) as thread:
        assert (await thread.compacted())["compacted"]
        await thread.put(talk(12, start=12))
        rig.mark()
        rig.summarizer(Reply("Apples first, pears later."))
        rig.provider.limit(LIMIT)
        assert statuses(await thread.run()) == ["started", "completed"]
        (call, *_) = rig.summary_calls()
        assert "The first half was about apples." in call.text
        assert (await thread.values())["summary_text"] == "Apples first, pears later."


@pytest.mark.parametrize("shape", LOOKALIKES[:3], ids=str)
async def test_what_only_sounds_like_an_overflow_is_not_recovered(rig: Rig, shape: ErrorShape) -> None:
    async with new_thread(rig.gateway, HISTORY) as thread:
        rig.agent(answer_of(shape))
        parts = await thread.run()
        assert "code" not in error_of(parts)
        assert statuses(parts) == []
        assert await thread.records() == []
