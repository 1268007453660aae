"""Compaction inside a subagent's conversation, and of a conversation that has delegations (rules E1, F3, G3, G4)."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from typing import Any

import pytest
import pytest_asyncio

from tests.support.answers import Answer, Fail, Reply, Request
from tests.support.rig import SMALL, Rig, rigged
from tests.support.subagents import delegating, last_role, ledger, system_of
from tests.support.threads import SUMMARY, Thread, events_of, new_thread, statuses

pytestmark = pytest.mark.asyncio(loop_scope="module")

DIGGER = "You are the digger. Dig."
MOLE = "You are the mole. Dig."
TYPES = {
    "types": [
        {
            "name": "digger",
            "description": "Digs with a model of its own.",
            "system_prompt": DIGGER,
            "tools": ["list_files"],
            "model": "other",
        },
        {
            "name": "mole",
            "description": "Digs with the model of the run.",
            "system_prompt": MOLE,
            "tools": ["list_files"],
        },
    ]
}
AGENTS = [{"name": "agent", "tools": ["list_files"], "skills": [], "subagents": ["digger", "mole"]}]
FOUND = "Deep layer. " + "soil " * 500


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def shared(tmp_path_factory: pytest.TempPathFactory, database_template: str) -> AsyncIterator[Rig]:
    folder = tmp_path_factory.mktemp("subagents")
    async with rigged(
        folder, database_template, SMALL, ("main", "other"), subagents=TYPES, agents=AGENTS
    ) as served:
        yield served


@pytest.fixture
def rig(shared: Rig) -> Rig:
    shared.reset()
    return shared


def is_digging(request: Request) -> bool:
    return system_of(request).startswith((DIGGER, MOLE))


def digging(rig: Rig, kind: str, turns: int) -> Callable[[Request], Answer]:
    """The lead delegates; the subagent needs so many turns, each of some seven hundred tokens, and reports."""
    left = [turns]

    def answer(request: Request) -> Answer:
        if is_digging(request):
            left[0] -= 1
            if left[0] < 0:
                return Reply("I found gold.")
            return Reply(FOUND, tool_calls=(rig.provider.call("list_files", {}),))
        return delegating("Dig for gold.", kind=kind) if last_role(request) == "user" else Reply("Done.")

    return answer


async def dug(rig: Rig, thread: Thread, kind: str, turns: int, **options: Any) -> list[Any]:
    rig.agent(digging(rig, kind, turns))
    return await thread.run("Find gold.", stream_subgraphs=True, **options)


def namespace(parts: list[Any]) -> str:
    return next(part.event.split("|")[1] for part in parts if "|" in part.event)


def progress_below(parts: list[Any]) -> list[str]:
    return [part.data["status"] for part in parts if part.event.startswith("custom|")]


async def records_of(thread: Thread, checkpoint_ns: str) -> list[dict[str, Any]]:
    answer = await thread.http.get(
        f"/threads/{thread.id}/compactions", params={"checkpoint_ns": checkpoint_ns}
    )
    return answer.json()["data"]  # type: ignore[no-any-return]


async def test_a_subagent_keeps_its_prompt_and_its_task_when_it_compacts(rig: Rig) -> None:
    async with new_thread(rig.gateway) as thread:
        parts = await dug(rig, thread, "digger", 8)
        assert progress_below(parts)[:2] == ["started", "completed"]
        assert rig.summary_calls()
        calls = [call for call in rig.agent_calls() if is_digging(call)]
        assert len(calls) == 9
        assert all(system_of(call).startswith(DIGGER) for call in calls)
        assert all(call.text.count("Dig for gold.") == 1 for call in calls)
        assert SUMMARY.splitlines()[1] in calls[-1].text
        assert calls[-1].text.count(FOUND.strip()) < 8
        assert (await ledger(thread))[0]["brief"] == "I found gold."


async def test_the_model_of_a_subagent_writes_its_summaries(rig: Rig) -> None:
    async with new_thread(rig.gateway) as thread:
        await dug(rig, thread, "digger", 6)
        assert {call.body["model"] for call in rig.summary_calls()} == {"other"}
    rig.mark()
    async with new_thread(rig.gateway) as thread:
        await dug(rig, thread, "mole", 6)
        assert {call.body["model"] for call in rig.summary_calls()} == {"main"}
    rig.mark()
    async with new_thread(rig.gateway) as thread:
        await dug(rig, thread, "mole", 6, context={"model_name": "other"})
        assert {call.body["model"] for call in (*rig.agent_calls(), *rig.summary_calls())} == {"other"}


async def test_a_subagents_compaction_is_not_one_of_the_thread(rig: Rig) -> None:
    async with new_thread(rig.gateway) as thread:
        parts = await dug(rig, thread, "digger", 6)
        assert statuses(parts) == [] == events_of(parts)
        values = await thread.values()
        assert not values.get("summary_text") and not values.get("compaction")
        assert await thread.records() == []
        context = await thread.context()
        assert context["last_compaction_id"] is None
        assert context["breaker"] == {"open": False, "failures": 0, "retry_at": None}


async def test_what_a_subagents_compaction_removed_is_in_the_archive_under_its_namespace(rig: Rig) -> None:
    async with new_thread(rig.gateway) as thread:
        parts = await dug(rig, thread, "digger", 6)
        found = await records_of(thread, namespace(parts))
        record = found[-1]
        (run,) = await thread.client.runs.list(thread.id)
        assert (record["status"], record["kind"], record["agent_name"]) == ("committed", "auto", "digger")
        assert (record["run_id"], record["thread_id"]) == (run["run_id"], thread.id)
        assert record["checkpoint_ns"] == namespace(parts)
        whole = await thread.record(record["compaction_id"])
        assert len(whole["removed_messages"]) == record["removed_message_count"] > 0
        assert all(message["type"] in ("ai", "tool") for message in whole["removed_messages"])
        assert whole["summary_text"] == SUMMARY


async def test_failures_in_a_subagent_are_not_the_threads_and_end_after_three(rig: Rig) -> None:
    rig.summarizer(Fail(401), "other")
    async with new_thread(rig.gateway) as thread:
        parts = await dug(rig, thread, "digger", 12)
        assert (await ledger(thread))[0]["status"] == "completed"
        assert progress_below(parts) == ["started", "failed"] * 3
        assert len(rig.summary_calls()) == 3
        context = await thread.context()
        assert (context["breaker"]["failures"], context["last_error"]) == (0, None)
        records = await records_of(thread, namespace(parts))
        assert [record["status"] for record in records] == ["failed"] * 3
        assert await thread.records() == []


async def test_a_subagent_recovers_from_an_overflow_by_itself(rig: Rig) -> None:
    async with new_thread(rig.gateway) as thread:
        rig.provider.limit(2200)
        parts = await dug(rig, thread, "digger", 5)
        assert (await ledger(thread))[0]["status"] == "completed"
        kinds = {record["kind"] for record in await records_of(thread, namespace(parts))}
        assert "overflow" in kinds
        assert await thread.records() == []


async def test_after_ten_compactions_each_delegation_is_in_the_request_once(rig: Rig) -> None:
    async with new_thread(rig.gateway) as thread:
        briefs = []
        for number in range(4):
            rig.agent(reporting(f"Report {number}: vein {number * 111}."))
            await thread.run(f"Ask about vein {number}. " + "word " * 200)
            briefs.append(f"Report {number}: vein {number * 111}.")
        rig.agent(Reply("I see. " + "word " * 200))
        for number in range(10):
            await thread.run(f"Go on {number}. " + "word " * 200)
            await thread.compacted(keep={"type": "messages", "value": 1})
        committed = [record for record in await thread.records() if record["status"] == "committed"]
        assert len(committed) >= 10
        rig.mark()
        await thread.run("What did they say?")
        (call,) = rig.agent_calls()
        for number, brief in enumerate(briefs):
            assert call.text.count(brief) == 1
            assert call.text.count(f"[completed] mole: Task {number + 10}") == 1
        assert all("Report" not in system for system in systems_of(call))
        assert [entry["brief"] for entry in await ledger(thread)] == briefs


def systems_of(request: Request) -> list[str]:
    return [str(message["content"]) for message in request.messages if message["role"] == "system"]


def reporting(report: str) -> Callable[[Request], Answer]:
    number = int(report.split()[1].strip(":"))

    def answer(request: Request) -> Answer:
        if is_digging(request):
            return Reply(report)
        if last_role(request) == "user":
            return delegating("Dig.", kind="mole", first_id=10 + number)
        return Reply("Noted.")

    return answer


async def test_a_compaction_in_the_step_after_a_delegation_finds_it_captured(rig: Rig) -> None:
    """The results fill the context: the hook compacts before the model sees them, and the ledger has them all."""
    reports = [f"Report {number}. " + "gold " * 900 for number in range(3)]

    def answer(request: Request) -> Answer:
        if is_digging(request):
            asked = str(request.messages[-1]["content"])
            return Reply(reports[int(asked[-1])])
        if last_role(request) == "user":
            return delegating("Dig 0", "Dig 1", "Dig 2", kind="mole")
        return Reply("Done.")

    rig.agent(answer)
    async with new_thread(rig.gateway) as thread:
        await thread.run("Dig three times.")
        rig.agent(Reply("I see."))
        await thread.run("And now?")
        await thread.compacted(keep={"type": "messages", "value": 1})
        rig.mark()
        await thread.run("Go on.")
        (call,) = rig.agent_calls()
        for number in range(3):
            assert call.text.count(f"-> Report {number}.") == 1
        assert [entry["status"] for entry in await ledger(thread)] == ["completed"] * 3
