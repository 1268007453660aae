"""When the hook compacts: before any model call, as soon as one clause is reached (rules B2, C1)."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest
import pytest_asyncio

from tests.support.answers import Reply, Request
from tests.support.rig import Rig, rigged
from tests.support.threads import new_thread, statuses, talk

pytestmark = pytest.mark.asyncio(loop_scope="module")


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def served(tmp_path_factory: pytest.TempPathFactory, database_template: str) -> AsyncIterator[Rig]:
    clauses = [{"type": "tokens", "value": 100_000}, {"type": "messages", "value": 9}]
    summarization = {"trigger": clauses, "keep": {"type": "messages", "value": 3}}
    async with rigged(tmp_path_factory.mktemp("trigger"), database_template, summarization) as rig:
        yield rig


@pytest.mark.parametrize(("exchanges", "fires"), [(3, False), (4, True), (5, True)])
async def test_one_clause_is_enough_and_reaching_it_fires(rig: Rig, exchanges: int, fires: bool) -> None:
    async with new_thread(rig.gateway, talk(exchanges)) as thread:
        assert statuses(await thread.run()) == (["started", "completed"] if fires else [])
        if fires:
            (record,) = await thread.records()
            assert record["trigger"] == "messages >= 9"
            assert record["preserved_message_count"] == 3


async def test_the_summary_counts_as_one_message(rig: Rig) -> None:
    """Three kept and a reply, then one more exchange at a time: the eighth message and the summary make nine."""
    async with new_thread(rig.gateway, talk(4)) as thread:
        await thread.run()
        assert [len(statuses(await thread.run())) for _ in range(3)] == [0, 0, 2]
        assert len(await thread.records()) == 2


async def test_the_trigger_is_looked_at_before_every_call_of_a_run(rig: Rig) -> None:
    seen: list[int] = []

    def agent(request: Request) -> Reply:
        seen.append(len([message for message in request.messages if message["role"] != "system"]))
        if len(seen) > 12:
            return Reply("done")
        written = {"path": "a.txt", "content": "word " * 120}
        return Reply(None, tool_calls=(rig.provider.call("write_file", written),))

    rig.agent(agent)
    async with new_thread(rig.gateway) as thread:
        parts = await thread.run("Look around.")
        # The durable block is one message of a request more than the trigger counts.
        assert max(seen) <= 9
        assert statuses(parts).count("completed") == len(await thread.records()) >= 3
        messages = await thread.messages()
        assert (messages[0]["content"], messages[-1]["content"]) == ("Look around.", "done")


async def test_nothing_is_asked_and_nothing_recorded_while_no_clause_is_reached(rig: Rig) -> None:
    async with new_thread(rig.gateway, talk(2)) as thread:
        parts = await thread.run(modes=["updates", "custom"])
        assert statuses(parts) == []
        assert {"SummarizationMiddleware.before_model": None} in [
            p.data for p in parts if p.event == "updates"
        ]
        assert rig.summary_calls() == []
        assert await thread.records() == []
