"""Several subagents at once, as many as the configuration allows (served with the demo model, and with a provider)."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from app.config import settings_from
from tests.support.answers import Answer, Hang, Reply, Request
from tests.support.gateway import Gateway, serving
from tests.support.rig import rigged
from tests.support.subagents import (
    WITH_SUBAGENTS,
    delegating,
    is_subagents,
    last_role,
    ledger,
    ledger_statuses,
    told_to_delegate,
)
from tests.support.threads import new_thread

NEVER = {"trigger": {"type": "tokens", "value": 10**6}}


def namespaces_in_order(parts: list[Any]) -> list[str]:
    return [part.event.split("|")[1] for part in parts if "|" in part.event]


def most_at_once(order: list[str]) -> int:
    """At how many places of the stream so many namespaces had begun and not yet ended."""
    first = {name: order.index(name) for name in order}
    last = {name: len(order) - 1 - order[::-1].index(name) for name in order}
    return max(sum(first[n] <= at <= last[n] for n in first) for at in range(len(order)))


@pytest.mark.parametrize("checkpoint_mode", ["delta", "full"])
async def test_three_delegations_with_two_places_never_have_three_at_work(
    tmp_path: Path, database_url: str, checkpoint_mode: str
) -> None:
    sections = {"subagents": {"max_parallel": 2}, "checkpoint_mode": checkpoint_mode}
    async with serving(tmp_path, database_url, sections) as gateway, new_thread(gateway) as thread:
        asked = told_to_delegate("/slow 4", "/slow 4", "/slow 4")
        parts = await thread.run(asked, modes=("messages-tuple",), stream_subgraphs=True)
        order = namespaces_in_order(parts)
        assert len(set(order)) == 3
        assert most_at_once(order) == 2
        assert await ledger_statuses(thread) == ["completed"] * 3
        assert [entry["description"] for entry in await ledger(thread)] == ["Task 0", "Task 1", "Task 2"]


async def test_a_place_that_becomes_free_is_taken_by_the_next(tmp_path: Path, database_template: str) -> None:
    def answer(request: Request) -> Answer:
        if is_subagents(request):
            return Hang(then=Reply("The report."))
        return delegating("One.", "Two.", "Three.") if last_role(request) == "user" else Reply("Done.")

    sections = {"subagents": {"max_parallel": 2}, **WITH_SUBAGENTS}
    async with (
        rigged(tmp_path, database_template, NEVER, **sections) as rig,
        new_thread(rig.gateway) as thread,
    ):
        rig.agent(answer)
        question = {"messages": [{"role": "user", "content": "go"}]}
        run = await thread.client.runs.create(thread.id, "agent", input=question)
        await rig.provider.asked(3)
        # Whoever had no place to wait for would have asked by now.
        for _ in range(3):
            await thread.state()
        assert len(rig.provider.chats) == 3
        rig.provider.release()
        await rig.provider.asked(4)
        rig.provider.release()
        await thread.client.runs.join(thread.id, run["run_id"])
        assert await ledger_statuses(thread) == ["completed"] * 3


async def test_runs_of_different_threads_do_not_wait_for_each_other(
    tmp_path: Path, database_template: str
) -> None:
    def answer(request: Request) -> Answer:
        if is_subagents(request):
            return Hang(then=Reply("The report."))
        return delegating("One.") if last_role(request) == "user" else Reply("Done.")

    sections = {"subagents": {"max_parallel": 1}, **WITH_SUBAGENTS}
    async with (
        rigged(tmp_path, database_template, NEVER, **sections) as rig,
        new_thread(rig.gateway) as one,
        new_thread(rig.gateway) as other,
    ):
        rig.agent(answer)
        question = {"messages": [{"role": "user", "content": "go"}]}
        runs = [await t.client.runs.create(t.id, "agent", input=question) for t in (one, other)]
        await rig.provider.asked(4)
        rig.provider.release()
        for thread, run in zip((one, other), runs, strict=True):
            await thread.client.runs.join(thread.id, run["run_id"])
            assert await ledger_statuses(thread) == ["completed"]


async def test_the_shipped_agent_can_delegate(gateway: Gateway) -> None:
    assert settings_from({}).subagents.names == ("general-purpose",)
    async with new_thread(gateway) as thread:
        await thread.run(told_to_delegate('/tool write_file {"path": "a.txt", "content": "x"}'))
        (entry,) = await ledger(thread)
        assert entry["status"] == "completed" and "Wrote a.txt" in entry["brief"]
