"""Recovery from an overflow where a run is not a question and an answer: tools, settings, cancellation (rule E7)."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.support.answers import Fail, Hang, Reply, Request, answer_of
from tests.support.overflow_shapes import OVERFLOWS
from tests.support.rig import SMALL, Rig, rigged
from tests.support.threads import Message, Thread, new_thread, statuses, summaries_asked, talk, tool_round

HISTORY = talk(12)
LIMIT = 2000
NEVER = {**SMALL, "trigger": {"type": "tokens", "value": 100_000}}
TOO_LONG = answer_of(OVERFLOWS[0])


def results_in(request: Request) -> int:
    return sum(message["role"] == "tool" for message in request.messages)


def paired(messages: list[Message]) -> bool:
    """Every result stands behind its call, and every call has one."""
    open_calls: list[str] = []
    for message in messages:
        if message["type"] == "tool":
            if message["tool_call_id"] not in open_calls:
                return False
            open_calls.remove(message["tool_call_id"])
        elif open_calls:
            return False
        open_calls += [call["id"] for call in message.get("tool_calls") or []]
    return not open_calls


@pytest.mark.parametrize("mode", ["delta", "full"])
async def test_an_overflow_in_the_middle_of_a_tool_loop_keeps_calls_with_their_results(
    tmp_path: Path, database_template: str, mode: str
) -> None:
    async with rigged(tmp_path, database_template, NEVER, retries=0, checkpoint_mode=mode) as rig:
        call = rig.provider.call
        rounds: list[int] = []

        def agent(request: Request) -> Any:
            if request.tokens > 3200:
                return TOO_LONG
            rounds.append(results_in(request))
            if len(rounds) > 8:
                return Reply("done")
            text = f"{len(rounds)} " * 300
            return Reply(
                None, tool_calls=[call("write_file", {"path": f"{n}.txt", "content": text}) for n in (1, 2)]
            )

        rig.agent(agent)
        async with new_thread(rig.gateway, HISTORY) as thread:
            parts = await thread.run("Write the files.", modes=["custom"])
            assert parts[-1].event == "end"
            assert [part for part in parts if part.event == "error"] == []
            assert statuses(parts).count("completed") >= 2
            messages = await thread.messages()
            assert paired(messages)
            assert messages[-1]["content"] == "done"
            assert "Write the files." in [message["content"] for message in messages]
            assert all(paired_request(request) for request in rig.agent_calls())
            await everything_is_there(thread, messages)


def paired_request(request: Request) -> bool:
    calls = [call["id"] for message in request.messages for call in message.get("tool_calls") or []]
    results = [message["tool_call_id"] for message in request.messages if message["role"] == "tool"]
    return calls == results


async def everything_is_there(thread: Thread, live: list[Message]) -> None:
    """Each message is live or in the archive of exactly one committed compaction."""
    archived: list[str] = []
    for record in await thread.records():
        assert (record["kind"], record["status"]) == ("overflow", "committed")
        archived += [m["id"] for m in (await thread.record(record["compaction_id"]))["removed_messages"]]
    assert len(archived) == len(set(archived))
    assert not set(archived) & {message["id"] for message in live}
    assert {message["id"] for message in HISTORY} <= {*archived, *(message["id"] for message in live)}


async def test_without_the_excerpt_as_fallback_the_run_ends_with_the_typed_error(
    tmp_path: Path, database_template: str
) -> None:
    summarization = {**NEVER, "overflow_fallback": "none"}
    async with rigged(tmp_path, database_template, summarization, retries=0) as rig:
        rig.summarizer(Fail(401))
        await ends_with_overflow(rig, "failed", summaries=1)


async def test_compaction_that_is_switched_off_recovers_nothing(
    tmp_path: Path, database_template: str
) -> None:
    async with rigged(tmp_path, database_template, {**NEVER, "enabled": False}, retries=0) as rig:
        await ends_with_overflow(rig, None, summaries=0)


async def ends_with_overflow(rig: Rig, status: str | None, summaries: int) -> None:
    rig.agent(lambda request: TOO_LONG if request.tokens > LIMIT else Reply("done"))
    async with new_thread(rig.gateway, HISTORY) as thread:
        before = await thread.messages()
        parts = await thread.run()
        (error,) = [part.data for part in parts if part.event == "error"]
        assert error["code"] == "context_overflow"
        assert statuses(parts) == (["started", status] if status else [])
        assert (len(rig.agent_calls()), len(rig.summary_calls())) == (1, summaries)
        values = await thread.values()
        assert values["messages"][:-1] == before
        assert not values.get("summary_text")
        rig.reset()
        assert (await thread.run())[-1].event == "end"
        assert (await thread.messages())[-1]["content"] == "ok"


async def test_an_overflow_right_after_an_automatic_compaction_compacts_further(
    tmp_path: Path, database_template: str
) -> None:
    summarization = {**SMALL, "target_fraction": 1.0, "keep": {"type": "messages", "value": 14}}
    async with rigged(tmp_path, database_template, summarization, retries=0) as rig:
        rig.agent(lambda request: TOO_LONG if request.tokens > 1700 else Reply("done"))
        async with new_thread(rig.gateway, HISTORY) as thread:
            parts = await thread.run("What is next?")
            assert statuses(parts) == ["started", "completed", "started", "completed"]
            overflow, auto = await thread.records()
            assert [auto["kind"], overflow["kind"]] == ["auto", "overflow"]
            assert [auto["status"], overflow["status"]] == ["committed", "committed"]
            assert overflow["checkpoint_before"] is not None
            assert auto["checkpoint_after"] < overflow["checkpoint_after"]
            messages = await thread.messages()
            assert [message["content"] for message in messages][-2:] == ["What is next?", "done"]
            removed = [
                message["id"]
                for record in (auto, overflow)
                for message in (await thread.record(record["compaction_id"]))["removed_messages"]
            ]
            assert removed + [message["id"] for message in messages[:-2]] == [m["id"] for m in HISTORY]


async def test_cancelling_in_mid_recovery_leaves_everything_as_it_was(
    tmp_path: Path, database_template: str
) -> None:
    async with rigged(tmp_path, database_template, NEVER, retries=0) as rig:
        rig.agent(TOO_LONG)
        rig.summarizer(Hang())
        async with new_thread(rig.gateway, HISTORY) as thread:
            before = await thread.messages()
            run = await thread.client.runs.create(
                thread.id, "agent", input={"messages": [{"role": "user", "content": "go"}]}
            )
            await summaries_asked(rig.provider, 1)
            await thread.client.runs.cancel(thread.id, run["run_id"], wait=True)
            await rig.provider.hung_up()
            values = await thread.values()
            assert values["messages"][:-1] == before
            assert not values.get("summary_text")
            assert await thread.records() == []
            rig.reset()
            assert (await thread.run())[-1].event == "end"
            assert (await thread.messages())[-1]["content"] == "ok"


@pytest.mark.parametrize("size", [4, 8])
async def test_old_tool_rounds_of_the_newest_question_go_too(
    tmp_path: Path, database_template: str, size: int
) -> None:
    """The question itself stays: the cut is not moved for it."""
    async with rigged(tmp_path, database_template, NEVER, retries=0) as rig:
        rig.agent(lambda request: TOO_LONG if request.tokens > 3000 else Reply("done"))
        question = {"type": "human", "id": "question", "content": "Read all of them."}
        rounds = [message for number in range(size) for message in tool_round(number, 2500)]
        async with new_thread(rig.gateway, [question, *rounds]) as thread:
            await thread.client.runs.wait(thread.id, "agent", input=None)
            parts = [p async for p in thread.client.runs.stream(thread.id, "agent", input={"messages": []})]
            assert parts[-1].event == "end"
            messages = await thread.messages()
            assert messages[0]["id"] == "question"
            assert paired(messages)
            assert messages[-1]["content"] == "done"
            (record,) = await thread.records()
            assert record["kind"] == "overflow"
