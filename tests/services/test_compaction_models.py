"""Which models may write the summary, in which order, and when the hook stops asking them (rules E0-E3)."""

from __future__ import annotations

from collections.abc import AsyncIterator
from datetime import UTC, datetime
from typing import Any

import pytest
import pytest_asyncio

from tests.support.answers import Fail, Reply
from tests.support.rig import SMALL, Rig, rigged
from tests.support.threads import Thread, new_thread, statuses, talk

pytestmark = pytest.mark.asyncio(loop_scope="module")

# Above the trigger by far: what the stand-in reports as usage is less than the estimate.
LONG = talk(20)
AGENTS = [{"name": "agent"}, {"name": "researcher", "model": "other"}]
BROKEN = {"name": "broken", "use": "langchain_openai:ChatOpenAI", "model": "x", "temperature": "hot"}
KEYLESS = {"name": "keyless", "use": "langchain_openai:ChatOpenAI", "model": "x", "api_key": "$NO_SUCH_KEY"}


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def unnamed(tmp_path_factory: pytest.TempPathFactory, database_template: str) -> AsyncIterator[Rig]:
    folder = tmp_path_factory.mktemp("unnamed")
    models = ("main", "other", {**BROKEN, "api_key": "sk-1"}, KEYLESS)
    async with rigged(folder, database_template, SMALL, models, agents=AGENTS) as rig:
        yield rig


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def named(tmp_path_factory: pytest.TempPathFactory, database_template: str) -> AsyncIterator[Rig]:
    folder = tmp_path_factory.mktemp("named")
    summarization = {**SMALL, "model_name": "writer"}
    async with rigged(
        folder, database_template, summarization, ("main", "other", "writer"), agents=AGENTS
    ) as rig:
        yield rig


async def tried(thread: Thread) -> list[str]:
    return [attempt["name"] for attempt in (await thread.records())[0]["models_tried"]]


async def test_without_a_name_the_model_of_the_run_writes_the_summary(unnamed: Rig) -> None:
    unnamed.reset()
    async with new_thread(unnamed.gateway, talk(12)) as thread:
        await thread.run(context={"model_name": "other"})
        assert await tried(thread) == ["other"]
        assert len(unnamed.summary_calls("other")) == 1
        assert [call.body["model"] for call in unnamed.agent_calls()] == ["other"]


async def test_without_a_name_the_model_of_the_agent_writes_the_summary(unnamed: Rig) -> None:
    unnamed.reset()
    async with new_thread(unnamed.gateway, talk(12)) as thread:
        await thread.client.runs.wait(
            thread.id, "researcher", input={"messages": [{"role": "user", "content": "go"}]}
        )
        assert await tried(thread) == ["other"]
        await thread.put(talk(12, start=12))
        assert (await thread.compacted())["model_name"] == "other"
        await thread.put(talk(12, start=24))
        assert (await thread.compacted(agent_name="agent"))["model_name"] == "main"
        await thread.put(talk(12, start=36))
        assert (await thread.compacted(model_name="main"))["model_name"] == "main"


async def test_the_request_names_an_agent_by_its_id_too(unnamed: Rig) -> None:
    async with new_thread(unnamed.gateway, talk(12)) as thread:
        (found,) = await thread.client.assistants.search(graph_id="researcher")
        assert (await thread.compacted(agent_name=found["assistant_id"]))["model_name"] == "other"


async def test_a_named_summariser_is_asked_first_and_the_runs_model_after_it(named: Rig) -> None:
    named.reset()
    named.summarizer(Fail(401), "writer")
    async with new_thread(named.gateway, talk(12)) as thread:
        await thread.run(context={"model_name": "other"})
        assert await tried(thread) == ["writer", "other"]
        await thread.put(talk(12, start=12))
        done = await thread.compacted(model_name="other")
        assert await tried(thread) == ["writer", "other"]
        assert done["model_name"] == "other"


async def test_a_model_that_stands_in_both_places_is_asked_once(named: Rig) -> None:
    named.reset()
    named.summarizer(Fail(401), "writer")
    async with new_thread(named.gateway, talk(12)) as thread:
        assert (await thread.compact(model_name="writer")).status_code == 502
        assert await tried(thread) == ["writer"]
        assert len(named.summary_calls()) == 1


async def test_the_second_model_is_left_alone_when_the_first_one_works(named: Rig) -> None:
    named.reset()
    async with new_thread(named.gateway, talk(12)) as thread:
        assert (await thread.compacted())["model_name"] == "writer"
        assert len(named.summary_calls("main")) == 0


@pytest.mark.parametrize(
    ("name", "why"),
    [("broken", "temperature"), ("keyless", "$NO_SUCH_KEY is not set")],
    ids=["broken", "keyless"],
)
async def test_a_model_that_cannot_be_built_is_a_reason_not_a_crash(
    unnamed: Rig, name: str, why: str
) -> None:
    async with new_thread(unnamed.gateway, talk(12)) as thread:
        for _ in range(2):
            response = await thread.compact(model_name=name)
            assert response.status_code == 502
            assert response.json()["code"] == "summary_generation_failed"
            assert why in response.json()["detail"]
        assert "within the last minute" in response.json()["detail"]


async def test_an_agent_runs_though_its_summariser_cannot_be_built(
    tmp_path_factory: pytest.TempPathFactory, database_template: str
) -> None:
    summarization = {**SMALL, "model_name": "keyless"}
    folder = tmp_path_factory.mktemp("unbuilt")
    async with (
        rigged(folder, database_template, summarization, ("main", KEYLESS)) as rig,
        new_thread(rig.gateway, talk(12)) as thread,
    ):
        parts = await thread.run()
        assert statuses(parts) == ["started", "completed"]
        assert (await thread.messages())[-1]["content"] == "ok"
        assert await tried(thread) == ["keyless", "main"]


async def pause_is_over(rig: Rig, thread: Thread) -> None:
    async with rig.gateway.core.database.pool.connection() as conn:
        await conn.execute(
            "UPDATE threads SET compaction_retry_at = now() - interval '1 s' WHERE thread_id = %s",
            (thread.id,),
        )


def seconds_until(moment: str) -> float:
    return (datetime.fromisoformat(moment) - datetime.now(UTC)).total_seconds()


async def failing_runs(thread: Thread, count: int) -> None:
    for _ in range(count):
        assert statuses(await thread.run()) == ["started", "failed"]


async def breaker_of(thread: Thread) -> dict[str, Any]:
    return (await thread.context())["breaker"]  # type: ignore[no-any-return]


async def test_after_three_failures_the_hook_waits_with_growing_pauses(unnamed: Rig) -> None:
    unnamed.reset()
    unnamed.summarizer(Fail(401, {"error": {"message": "Bad key."}}))
    async with new_thread(unnamed.gateway, LONG) as thread:
        await failing_runs(thread, 2)
        assert await breaker_of(thread) == {"open": False, "failures": 2, "retry_at": None}
        await failing_runs(thread, 1)
        first = await breaker_of(thread)
        assert (first["open"], first["failures"]) == (True, 3)
        assert 20 < seconds_until(first["retry_at"]) <= 30
        assert "Bad key." in (await thread.context())["last_error"]
        unnamed.mark()
        assert statuses(await thread.run()) == []
        assert unnamed.summary_calls() == []
        assert len(await thread.records()) == 3
        await pause_is_over(unnamed, thread)
        await failing_runs(thread, 1)
        assert 40 < seconds_until((await breaker_of(thread))["retry_at"]) <= 60


async def test_a_success_of_either_path_ends_the_wait(unnamed: Rig) -> None:
    unnamed.reset()
    unnamed.summarizer(Fail(401))
    async with new_thread(unnamed.gateway, LONG) as thread:
        await failing_runs(thread, 3)
        unnamed.reset()
        assert (await thread.compacted())["compacted"]
        context = await thread.context()
        assert context["breaker"] == {"open": False, "failures": 0, "retry_at": None}
        assert context["last_error"] is None
        await thread.put(talk(20, start=20))
        assert statuses(await thread.run()) == ["started", "completed"]


async def test_the_wait_is_the_threads_own(unnamed: Rig) -> None:
    unnamed.reset()
    unnamed.summarizer(Fail(401))
    async with (
        new_thread(unnamed.gateway, LONG) as waiting,
        new_thread(unnamed.gateway, LONG) as other,
    ):
        await failing_runs(waiting, 3)
        unnamed.reset()
        assert statuses(await other.run()) == ["started", "completed"]


async def test_one_run_asks_three_times_at_most(unnamed: Rig) -> None:
    unnamed.reset()
    unnamed.summarizer(Reply(""))
    rounds = 6
    call = unnamed.provider.call
    unnamed.agent(
        lambda request: (
            Reply("done")
            if sum(message["role"] == "tool" for message in request.messages) >= rounds
            else Reply(None, tool_calls=(call("list_files", {}),))
        )
    )
    async with new_thread(unnamed.gateway, LONG) as thread:
        assert statuses(await thread.run()) == ["started", "failed"] * 3
        assert (await thread.messages())[-1]["content"] == "done"
        assert len(unnamed.agent_calls()) == rounds + 1
        assert len(unnamed.summary_calls()) == 3
