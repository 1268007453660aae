"""Delegations that do not come to their end: cancelled, out of time, killed with their worker."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

import pytest

from tests.support.answers import Answer, Hang, Reply, Request
from tests.support.provider import Provider
from tests.support.rig import Rig, rigged
from tests.support.service import config, running
from tests.support.subagents import (
    WITH_SUBAGENTS,
    delegating,
    is_subagents,
    last_role,
    ledger,
    ledger_statuses,
    results_of,
)
from tests.support.threads import Thread, new_thread, seen_from, stand_in

NEVER = {"trigger": {"type": "tokens", "value": 10**6}}
QUIET = {"summarization": NEVER, "title": {"enabled": False}}
GO = {"messages": [{"role": "user", "content": "Ask somebody."}]}
TYPES = {
    "types": [
        {"name": "general-purpose", "description": "Does anything."},
        {"name": "brief", "description": "Has little time.", "timeout_s": 0.5},
    ]
}


@pytest.fixture
async def rig(tmp_path: Path, database_template: str) -> AsyncIterator[Rig]:
    async with rigged(
        tmp_path, database_template, NEVER, retries=0, subagents=TYPES, **WITH_SUBAGENTS
    ) as served:
        yield served


def hanging(*prompts: str, kind: str = "general-purpose") -> Any:
    def answer(request: Request) -> Answer:
        if is_subagents(request):
            return Hang()
        if last_role(request) == "user" and "Ask somebody." in str(request.messages[-1]):
            return delegating(*prompts, kind=kind)
        return Reply("I see.")

    return answer


async def begun(rig: Rig, thread: Thread, requests: int) -> str:
    """A run whose subagents all wait for their model."""
    run = await thread.client.runs.create(thread.id, "agent", input=GO)
    await rig.provider.asked(requests)
    return str(run["run_id"])


async def test_cancelling_the_run_cancels_its_subagents(rig: Rig) -> None:
    rig.agent(hanging("One.", "Two."))
    async with new_thread(rig.gateway) as thread:
        run_id = await begun(rig, thread, 3)
        await thread.client.runs.cancel(thread.id, run_id, wait=True)
        await rig.provider.hung_up(2)
        assert (await thread.client.runs.get(thread.id, run_id))["status"] == "interrupted"
        rig.mark()
        await thread.run("And now?")
        assert await ledger_statuses(thread) == ["cancelled", "cancelled"]
        assert all(entry["ended_at"] for entry in await ledger(thread))
        (call,) = rig.agent_calls()
        assert call.text.count("[cancelled before it ended] general-purpose: Task 0") == 1
        assert call.text.count("[cancelled before it ended] general-purpose: Task 1") == 1


async def test_a_cancelled_run_can_be_continued_and_its_delegations_with_it(rig: Rig) -> None:
    rig.agent(hanging("One."))
    async with new_thread(rig.gateway) as thread:
        run_id = await begun(rig, thread, 2)
        await thread.client.runs.cancel(thread.id, run_id, wait=True)
        rig.agent(lambda request: Reply("The report." if is_subagents(request) else "Done."))
        await thread.client.runs.wait(thread.id, "agent", input=None)
        (entry,) = await ledger(thread)
        assert (entry["status"], entry["brief"]) == ("completed", "The report.")
        assert [m["content"] for m in results_of(await thread.messages())] == ["The report."]


async def test_a_delegation_that_was_cut_off_survives_a_compaction_by_hand(rig: Rig) -> None:
    rig.agent(hanging("One."))
    async with new_thread(rig.gateway) as thread:
        run_id = await begun(rig, thread, 2)
        await thread.client.runs.cancel(thread.id, run_id, wait=True)
        rig.agent(Reply("I see."))
        await thread.run("And now? " + "word " * 600)
        await thread.run("And then? " + "word " * 600)
        assert (await thread.compacted(keep={"type": "messages", "value": 1}))["compacted"]
        rig.mark()
        await thread.run("Go on.")
        (call,) = rig.agent_calls()
        assert call.text.count("[cancelled before it ended] general-purpose: Task 0") == 1


async def test_a_subagent_out_of_time_is_stopped_and_the_run_goes_on(rig: Rig) -> None:
    rig.agent(hanging("One.", kind="brief"))
    async with new_thread(rig.gateway) as thread:
        await thread.run("Ask somebody.")
        await rig.provider.hung_up(1)
        (result,) = results_of(await thread.messages())
        assert result["status"] == "error"
        assert result["content"] == "The subagent was stopped: it took longer than 0.5 s."
        (entry,) = await ledger(thread)
        assert (entry["status"], entry["brief"]) == ("timed_out", result["content"])
        assert (await thread.messages())[-1]["content"] == "I see."


@pytest.mark.timeout(120)
async def test_a_subagent_whose_worker_was_killed_goes_on_where_it_was(
    tmp_path: Path, database_url: str, provider: Provider
) -> None:
    alive = asyncio.Event()
    calls: list[str] = []

    def answer(request: Request) -> Answer:
        if not is_subagents(request):
            calls.append("lead")
            return delegating("Do it.") if last_role(request) == "user" else Reply("Done.")
        if last_role(request) == "user":
            calls.append("first turn")
            return Reply(None, tool_calls=(provider.call("write_file", {"path": "x", "content": "1"}),))
        calls.append("second turn")
        return Reply("The report.") if alive.is_set() else Hang()

    provider.always(answer)
    settings = config(models=[stand_in("main", provider)], **QUIET)
    async with AsyncExitStack() as stack:
        victim = await stack.enter_async_context(service(tmp_path / "victim", settings, database_url))
        thread = await stack.enter_async_context(new_thread(victim))
        run = await thread.client.runs.create(thread.id, "agent", input=GO, durability="sync")
        await provider.asked(3)
        victim.kill()
        await victim.process.wait()
        alive.set()
        witness = await stack.enter_async_context(service(tmp_path / "witness", settings, database_url))
        thread = await stack.enter_async_context(seen_from(witness, thread))
        await thread.client.runs.join(thread.id, run["run_id"])
        assert (await thread.client.runs.get(thread.id, run["run_id"]))["status"] == "success"
        assert calls == ["lead", "first turn", "second turn", "second turn", "lead"]
        (entry,) = await ledger(thread)
        assert (entry["status"], entry["brief"]) == ("completed", "The report.")
        assert len(results_of(await thread.messages())) == 1


@pytest.mark.timeout(120)
async def test_a_delegation_of_a_run_that_was_given_up_is_cancelled_in_the_next(
    tmp_path: Path, database_url: str, provider: Provider
) -> None:
    provider.always(hanging("Do it."))
    runs = {"stalled_after_s": 2, "max_attempts": 1}
    settings = config(models=[stand_in("main", provider)], **QUIET, runs=runs)
    async with AsyncExitStack() as stack:
        victim = await stack.enter_async_context(service(tmp_path / "victim", settings, database_url))
        thread = await stack.enter_async_context(new_thread(victim))
        run = await thread.client.runs.create(thread.id, "agent", input=GO, durability="sync")
        await provider.asked(2)
        victim.kill()
        await victim.process.wait()
        witness = await stack.enter_async_context(service(tmp_path / "witness", settings, database_url))
        thread = await stack.enter_async_context(seen_from(witness, thread))
        await thread.client.runs.join(thread.id, run["run_id"])
        assert (await thread.client.runs.get(thread.id, run["run_id"]))["status"] == "error"
        await thread.run("And now?")
        assert await ledger_statuses(thread) == ["cancelled"]


def service(folder: Path, settings: dict[str, Any], database_url: str) -> Any:
    folder.mkdir()
    return running(folder, settings, database_url=database_url)
