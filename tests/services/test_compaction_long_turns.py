"""Turns that outgrow the window while they last: many tool rounds behind one question (rules C1, C2, C4)."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.support.answers import Answer, Hang, Reply, Request
from tests.support.rig import SMALL, Rig, rigged
from tests.support.threads import Thread, events_of, is_paired, new_thread, statuses, summaries_asked, talk

SHIPPED = yaml.safe_load((Path(__file__).parents[2] / "config.yaml").read_text(encoding="utf-8"))
QUESTION = "Write all the chapters, one file each."


class Rounds:
    """An agent that makes a number of tool rounds, whatever it still sees of them, and then says that it is done."""

    def __init__(self, rig: Rig, number: int, call: dict[str, Any], name: str) -> None:
        self.done = 0
        self._rig, self._number, self._call, self._name = rig, number, call, name

    def __call__(self, request: Request) -> Answer:
        if self.done == self._number:
            return Reply("done")
        self.done += 1
        return Reply(None, tool_calls=(self._rig.provider.call(self._name, self._call),))


async def committed(thread: Thread) -> list[dict[str, Any]]:
    records = await thread.records()
    assert {record["status"] for record in records} == {"committed"}
    return records


async def archived(thread: Thread) -> list[str]:
    """Ids of all that was removed, oldest first."""
    return [
        message["id"]
        for record in reversed(await thread.records())
        for message in (await thread.record(record["compaction_id"]))["removed_messages"]
    ]


@pytest.mark.parametrize("mode", ["delta", "full"])
async def test_a_first_turn_of_one_question_and_twenty_tool_rounds(
    tmp_path: Path, database_template: str, mode: str
) -> None:
    summarization = {**SMALL, "trigger": {"type": "tokens", "value": 6000}}
    async with (
        rigged(tmp_path, database_template, summarization, checkpoint_mode=mode) as rig,
        new_thread(rig.gateway) as thread,
    ):
        agent = Rounds(rig, 20, {"path": "a.txt", "content": "chapter " * 350}, "write_file")
        rig.agent(agent)
        parts = await thread.run(QUESTION, modes=["custom", "updates"])
        assert parts[-1].event == "end"
        assert agent.done == 20
        messages = await thread.messages()
        assert messages[0]["content"] == QUESTION
        assert messages[-1]["content"] == "done"
        records = await committed(thread)
        assert 2 <= len(records) <= 6
        assert all(record["coverage"] == 1.0 for record in records)
        assert all(record["tokens_after"] <= 3300 for record in records)
        assert all(is_paired(request) for request in rig.agent_calls())
        assert all(QUESTION in request.text for request in rig.agent_calls())
        gone, live = await archived(thread), [message["id"] for message in messages]
        assert len(gone) == len(set(gone))
        assert not set(gone) & set(live)
        assert len(gone) + len(live) == 1 + 2 * 20 + 1


@pytest.mark.parametrize("durability", ["sync", "exit"])
async def test_every_compaction_of_a_run_is_on_record_however_seldom_its_state_is_saved(
    tmp_path: Path, database_template: str, durability: Any
) -> None:
    summarization = {**SMALL, "trigger": {"type": "tokens", "value": 6000}}
    async with rigged(tmp_path, database_template, summarization) as rig, new_thread(rig.gateway) as thread:
        rig.agent(Rounds(rig, 20, {"path": "a.txt", "content": "chapter " * 350}, "write_file"))
        await thread.run(QUESTION, durability=durability)
        await thread.run("And another one.", durability=durability)
        records = await committed(thread)
        assert len(records) >= 2
        head = (await thread.state())["checkpoint"]["checkpoint_id"]
        for record in records:
            assert record["checkpoint_before"] < record["checkpoint_after"] <= head
        gone, live = await archived(thread), await thread.ids()
        assert len({*gone, *live}) == len(gone) + len(live) == 1 + 2 * 20 + 1 + 2


@pytest.mark.timeout(120)
async def test_forty_steps_with_large_results_and_the_shipped_settings(
    tmp_path: Path, database_template: str
) -> None:
    """The reference made 34 compactions of these."""
    async with (
        rigged(tmp_path, database_template, SHIPPED["summarization"]) as rig,
        new_thread(rig.gateway) as thread,
    ):
        text = "\n".join(f"{number}: a line of the log that is read again and again" for number in range(550))
        assert 27_000 < len(text) < 31_000
        rig.agent(Rounds(rig, 1, {"path": "log.txt", "content": text}, "write_file"))
        await thread.run("Write the log.")
        agent = Rounds(rig, 40, {"path": "log.txt"}, "read_file")
        rig.agent(agent)
        parts = await thread.run("Read it forty times.", config={"recursion_limit": 500})
        assert (await thread.messages())[-1]["content"] == "done"
        records = await committed(thread)
        assert len(events_of(parts)) == 2 * len(records)
        assert 2 <= len(records) <= 20
        assert all(record["tokens_after"] < 0.6 * record["tokens_before"] for record in records)
        assert all(record["coverage"] == 1.0 for record in records)
        assert all(is_paired(request) for request in rig.agent_calls())


async def test_a_summary_larger_than_the_trigger_does_not_compact_before_every_call(
    tmp_path: Path, database_template: str
) -> None:
    """The system prompt and the tools are most of this trigger; whatever a summary says, the rest is little."""
    summarization = {"trigger": {"type": "tokens", "value": 1400}, "keep": {"type": "messages", "value": 4}}
    async with (
        rigged(tmp_path, database_template, summarization) as rig,
        new_thread(rig.gateway, talk(12)) as thread,
    ):
        rig.summarizer(Reply("\n".join(f"Bed {n}: plant {n * 7}, seed {n * 3}." for n in range(2000))))
        rig.agent(Rounds(rig, 10, {}, "list_files"))
        parts = await thread.run()
        assert (await thread.messages())[-1]["content"] == "done"
        assert statuses(parts).count("completed") <= 4
        assert len(rig.summary_calls()) <= 4
        summary = (await thread.context())["tokens"]["summary"]
        assert 0 < summary <= 400


async def test_a_run_that_is_cancelled_in_mid_summary_leaves_everything_as_it_was(
    tmp_path: Path, database_template: str
) -> None:
    history = talk(12)
    async with rigged(tmp_path, database_template, SMALL) as rig, new_thread(rig.gateway, history) as thread:
        rig.summarizer(Hang())
        question = {"messages": [{"role": "user", "content": "go"}]}
        run = await thread.client.runs.create(thread.id, "agent", input=question)
        await summaries_asked(rig.provider, 1)
        await thread.client.runs.cancel(thread.id, run["run_id"], wait=True)
        await rig.provider.hung_up()
        assert (await thread.client.runs.get(thread.id, run["run_id"]))["status"] == "interrupted"
        values = await thread.values()
        assert [message["id"] for message in values["messages"]][:-1] == [
            message["id"] for message in history
        ]
        assert not values.get("summary_text")
        assert await thread.records() == []
        assert (await thread.context())["breaker"]["failures"] == 0
        rig.reset()
        assert statuses(await thread.run()) == ["started", "completed"]
        assert (await thread.messages())[-1]["content"] == "ok"


async def test_many_threads_compact_at_the_same_time(tmp_path: Path, database_template: str) -> None:
    async with rigged(tmp_path, database_template, SMALL) as rig:

        async def one(number: int) -> None:
            async with new_thread(rig.gateway, talk(12, start=100 * number)) as thread:
                assert statuses(await thread.run()) == ["started", "completed"]
                (record,) = await committed(thread)
                assert len(await archived(thread)) == record["removed_message_count"]

        await asyncio.gather(*(one(number) for number in range(12)))
        assert len(rig.summary_calls()) == 12
