"""Whatever a provider does to a summary call: nothing changes, and the run goes on (rules E2-E5)."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import pytest
import pytest_asyncio

from tests.support.answers import Fail, Reply
from tests.support.rig import SMALL, Rig, rigged, shared_rig
from tests.support.scenarios import OVERFLOW_SCENARIOS, SCENARIOS, Scenario
from tests.support.threads import SUMMARY, Thread, new_thread, statuses, talk

pytestmark = pytest.mark.asyncio(loop_scope="module")

# Those that never reply have a file of their own, with a short deadline.
ANSWERED = [scenario for scenario in SCENARIOS if scenario.outcome != "silence"]
FAILING = [scenario for scenario in ANSWERED if scenario.outcome != "acceptable"]
# One overflow of each status for what every shape is shown to do elsewhere.
SHAPES = {(s.answer.status if isinstance(s.answer, Fail) else 200): s for s in OVERFLOW_SCENARIOS}
VARIED = [s for s in ANSWERED if s.outcome != "overflow" or s in SHAPES.values()]
ACCEPTABLE = [scenario for scenario in ANSWERED if scenario.outcome == "acceptable"]
# Requests that one candidate makes: one retry where it may help, never the SDK's own on top (rule E3).
REQUESTS = {"error": 1, "transient": 2, "overflow": 2, "unacceptable": 1, "acceptable": 1}
REASONS = {
    "401": "401",
    "403": "403",
    "404": "404",
    "429": "429",
    "500": "500",
    "503": "503",
    "dropped-connection": "Connection error",
    "blank": "blank",
    "no-content": "blank",
    "whitespace": "blank",
    "thoughts-only": "blank",
    "refusal": "refusal",
    "refusal-in-words": "refusal",
    "content-filter": "content_filter",
    "cut-off": "cut_off",
    "loop": "loop",
    "echo": "echo",
}


served = shared_rig("failures", SMALL)


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def with_fallback(
    tmp_path_factory: pytest.TempPathFactory, database_template: str
) -> AsyncIterator[Rig]:
    folder = tmp_path_factory.mktemp("fallback")
    summarization = {**SMALL, "model_name": "first"}
    async with rigged(folder, database_template, summarization, ("main", "first")) as rig:
        yield rig


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def summarized(served: Rig) -> AsyncIterator[Thread]:
    """A thread with a summary, long enough for the next one. No failure may change it, so that all share it."""
    async with new_thread(served.gateway, talk(12)) as thread:
        assert (await thread.compacted())["compacted"]
        await thread.put(talk(12, start=12))
        yield thread


def reason_of(scenario: Scenario) -> str:
    return REASONS.get(scenario.name.removesuffix("-retry-after"), "main:")


@pytest.mark.parametrize("scenario", FAILING, ids=str)
async def test_a_person_is_told_why_and_the_thread_stays_as_it_was(
    rig: Rig, summarized: Thread, scenario: Scenario
) -> None:
    before = await summarized.state()
    rig.summarizer(scenario.answer)
    response = await summarized.compact()
    assert response.status_code == 502, response.text
    error = response.json()
    assert error["code"] == "summary_generation_failed"
    assert reason_of(scenario) in error["detail"]
    assert "sk-stand-in" not in error["detail"]
    assert await summarized.state() == before
    calls = rig.summary_calls()
    assert len(calls) == REQUESTS[scenario.outcome]
    if scenario.outcome == "overflow":
        assert len(calls[1].text) < len(calls[0].text)
    (record, *_) = await summarized.records()
    assert (record["status"], record["kind"], record["reason"]) == ("failed", "manual", error["code"])
    assert reason_of(scenario) in record["error"]
    assert [tried["name"] for tried in record["models_tried"]] == ["main"]
    assert record["tokens_before"] > 2000
    assert record["checkpoint_after"] is None


@pytest.mark.parametrize("scenario", FAILING, ids=str)
async def test_the_hook_leaves_everything_and_the_run_goes_on(rig: Rig, scenario: Scenario) -> None:
    history = talk(12)
    async with new_thread(rig.gateway, history) as thread:
        rig.summarizer(scenario.answer)
        before = await thread.messages()
        parts = await thread.run("What is next?", modes=["custom", "updates"])
        assert statuses(parts) == ["started", "failed"]
        assert parts[-1].event == "end"
        updates = [part.data for part in parts if part.event == "updates"]
        assert {"SummarizationMiddleware.before_model": None} in updates
        values = await thread.values()
        assert values["messages"][: len(history)] == before
        assert [message["content"] for message in values["messages"][len(history) :]] == [
            "What is next?",
            "ok",
        ]
        assert not values.get("summary_text")
        assert not values.get("compaction")
        assert len(rig.summary_calls()) == REQUESTS[scenario.outcome]
        assert len(rig.agent_calls()) == 1
        (record,) = await thread.records()
        assert (record["status"], record["kind"]) == ("failed", "auto")
        assert reason_of(scenario) in record["error"]
        checkpoints = await thread.client.threads.get_history(thread.id)
        assert not any("compaction_id" in checkpoint["metadata"] for checkpoint in checkpoints)


@pytest.mark.parametrize("scenario", ACCEPTABLE, ids=str)
async def test_a_strange_but_acceptable_summary_is_committed(rig: Rig, scenario: Scenario) -> None:
    async with new_thread(rig.gateway, talk(12)) as thread:
        rig.summarizer(scenario.answer)
        parts = await thread.run()
        assert statuses(parts) == ["started", "completed"]
        summary = (await thread.values())["summary_text"]
        assert summary
        assert "<think>" not in summary
        assert (await thread.context())["tokens"]["summary"] <= 310
        assert len(rig.summary_calls()) == 1


@pytest.mark.parametrize("broken", ["\0", "\ud83d"], ids=["NUL", "half a surrogate pair"])
async def test_characters_that_nothing_can_store_are_left_out(rig: Rig, broken: str) -> None:
    async with new_thread(rig.gateway, talk(12)) as thread:
        rig.summarizer(Fail(401, {"error": {"message": f"Bad{broken} key."}}))
        error = (await thread.compact()).json()["detail"]
        assert "Bad" in error and broken not in error
        rig.summarizer(Reply(f"The user plans {broken}a garden."))
        assert statuses(await thread.run()) == ["started", "completed"]
        summary = (await thread.values())["summary_text"]
        assert summary.replace("?", "") == "The user plans a garden."
        completed, failed = await thread.records()
        assert (await thread.record(completed["compaction_id"]))["summary_text"] == summary
        assert failed["error"] in error


@pytest.mark.parametrize("scenario", VARIED, ids=str)
async def test_a_second_model_takes_over_after_any_failure(with_fallback: Rig, scenario: Scenario) -> None:
    with_fallback.reset()
    async with new_thread(with_fallback.gateway, talk(12)) as thread:
        with_fallback.summarizer(scenario.answer, "first")
        done = await thread.compacted()
        failed = scenario.outcome != "acceptable"
        assert done["compacted"]
        assert done["model_name"] == ("main" if failed else "first")
        assert len(with_fallback.summary_calls("first")) == REQUESTS[scenario.outcome]
        assert len(with_fallback.summary_calls("main")) == (1 if failed else 0)
        record = await thread.record(done["compaction_id"])
        tried: list[dict[str, Any]] = record["models_tried"]
        assert [attempt["name"] for attempt in tried] == (["first", "main"] if failed else ["first"])
        assert bool(tried[0]["error"]) == failed
        if failed:
            assert record["summary_text"] == SUMMARY


async def test_a_failure_is_no_longer_one_when_the_provider_is_back(rig: Rig, summarized: Thread) -> None:
    rig.summarizer(Fail(401))
    assert (await summarized.compact()).status_code == 502
    rig.reset()
    async with new_thread(rig.gateway, talk(12)) as thread:
        assert (await thread.compacted())["compacted"]
