"""One deadline for a whole compaction: providers that never answer, and waits that would not end in time (rule E3)."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest
import pytest_asyncio

from tests.support.answers import Fail, Hang
from tests.support.rig import SMALL, Rig, rigged
from tests.support.scenarios import SCENARIOS, Scenario
from tests.support.threads import new_thread, statuses, talk

pytestmark = pytest.mark.asyncio(loop_scope="module")

DEADLINE_S = 1.2
SILENT = [scenario for scenario in SCENARIOS if scenario.outcome == "silence"]
BUSY_FOR_LONG = Fail(429, {"error": {"message": "Slow down."}}, {"retry-after": "60"})


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def served(tmp_path_factory: pytest.TempPathFactory, database_template: str) -> AsyncIterator[Rig]:
    folder = tmp_path_factory.mktemp("deadline")
    summarization = {**SMALL, "summary_timeout_s": DEADLINE_S, "model_name": "first"}
    async with rigged(folder, database_template, summarization, ("main", "first")) as rig:
        yield rig


@pytest.mark.parametrize("scenario", SILENT, ids=str)
async def test_a_person_gets_504_when_the_deadline_ends_it(rig: Rig, scenario: Scenario) -> None:
    async with new_thread(rig.gateway, talk(12)) as thread:
        before = await thread.state()
        rig.summarizer(scenario.answer, "first")
        rig.summarizer(scenario.answer, "main")
        given_up = rig.provider.hangups
        response = await thread.compact()
        assert response.status_code == 504
        assert response.json()["code"] == "summary_timeout"
        assert "no summary within" in response.json()["detail"]
        assert await thread.state() == before
        await rig.provider.hung_up(given_up + 2)
        assert [len(rig.summary_calls(name)) for name in ("first", "main")] == [1, 1]
        (record,) = await thread.records()
        assert (record["status"], record["reason"]) == ("failed", "summary_timeout")
        assert 1000 * DEADLINE_S <= record["duration_ms"] < 3000 * DEADLINE_S


@pytest.mark.parametrize("scenario", SILENT, ids=str)
async def test_a_run_goes_on_after_the_deadline(rig: Rig, scenario: Scenario) -> None:
    async with new_thread(rig.gateway, talk(12)) as thread:
        rig.summarizer(scenario.answer, "first")
        rig.summarizer(scenario.answer, "main")
        parts = await thread.run("What is next?")
        assert statuses(parts) == ["started", "failed"]
        assert parts[-1].event == "end"
        values = await thread.values()
        assert len(values["messages"]) == 26
        assert values["messages"][-1]["content"] == "ok"
        assert not values.get("summary_text")


@pytest.mark.parametrize("scenario", SILENT, ids=str)
async def test_the_first_model_leaves_time_for_the_second(rig: Rig, scenario: Scenario) -> None:
    async with new_thread(rig.gateway, talk(12)) as thread:
        rig.summarizer(scenario.answer, "first")
        done = await thread.compacted()
        assert done["model_name"] == "main"
        assert 1000 * DEADLINE_S / 2 <= done["duration_ms"] < 1000 * DEADLINE_S
        (first, second) = (await thread.record(done["compaction_id"]))["models_tried"]
        assert "no summary within 0.8 s" in first["error"]
        assert second == {"name": "main", "error": None}


async def test_it_is_502_when_the_last_model_failed_in_time(rig: Rig) -> None:
    async with new_thread(rig.gateway, talk(12)) as thread:
        rig.summarizer(Hang(), "first")
        rig.summarizer(Fail(401), "main")
        response = await thread.compact()
        assert response.status_code == 502
        assert "first: no summary within" in response.json()["detail"]


async def test_a_wait_beyond_the_deadline_is_not_begun(rig: Rig) -> None:
    async with new_thread(rig.gateway, talk(12)) as thread:
        rig.summarizer(BUSY_FOR_LONG, "first")
        rig.summarizer(BUSY_FOR_LONG, "main")
        response = await thread.compact()
        assert response.status_code == 502
        assert [len(rig.summary_calls(name)) for name in ("first", "main")] == [1, 1]
        (record,) = await thread.records()
        assert record["duration_ms"] < 1000 * DEADLINE_S / 2
