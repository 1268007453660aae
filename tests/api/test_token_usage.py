"""What a thread used, by model and by caller, whatever of it was compacted, retried or delegated."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Mapping
from pathlib import Path
from typing import Any

import pytest

from tests.support.answers import Reply, Request
from tests.support.gateway import Gateway, serving
from tests.support.provider import Provider
from tests.support.service import config, running
from tests.support.subagents import delegating, is_subagents, last_role
from tests.support.threads import SUMMARY, Thread, is_summary_call, is_title_call, new_thread, stand_in, talk

WAIT_S = 20
TITLE, SUMMARISED, WORKED, NOTED, ANSWERED = (10, 1), (200, 20), (30, 3), (40, 4), (100, 10)


def is_memory_call(request: Request) -> bool:
    return "<memory_transcript>" in request.text


@pytest.fixture
async def metered(tmp_path: Path, database_url: str, provider: Provider) -> AsyncIterator[Gateway]:
    """A gateway whose provider reports other figures for each caller."""
    provider.when(is_title_call, Reply("A garden", usage=TITLE))
    provider.when(is_summary_call, Reply(SUMMARY, usage=SUMMARISED))
    provider.when(is_memory_call, Reply('{"facts": [], "forget": []}', usage=NOTED))
    provider.when(is_subagents, Reply("Done.", usage=WORKED))
    provider.always(Reply("An answer.", usage=ANSWERED))
    sections = {
        "models": [stand_in("big", provider, context_window=100_000), stand_in("small", provider)],
        "agents": [{"name": "agent"}],
        "title": {"model_name": "small"},
        "memory": {"enabled": True, "debounce_s": 0.2},
        "summarization": {"keep": {"type": "messages", "value": 2}},
    }
    async with serving(tmp_path, database_url, sections) as gateway:
        yield gateway


async def usage(thread: Thread, ready: Callable[[Mapping[str, Any]], bool] = bool) -> dict[str, Any]:
    """The report, as soon as it is ``ready``."""
    async with asyncio.timeout(WAIT_S):
        while True:
            response = await thread.http.get(f"/threads/{thread.id}/token-usage")
            assert response.status_code == 200, response.text
            report: dict[str, Any] = response.json()
            if ready(report):
                return report
            await asyncio.sleep(0.05)


async def test_each_caller_is_charged_what_its_calls_reported(metered: Gateway, provider: Provider) -> None:
    async with new_thread(metered) as thread:
        provider.sequence(Reply("I delegate.", tool_calls=delegating("weed").tool_calls, usage=ANSWERED))
        await thread.run("plan my garden")
        report = await usage(thread, lambda found: found["by_caller"]["memory"] > 0)
        assert report["by_caller"] == {
            "lead_agent": 2 * sum(ANSWERED),
            "subagent": sum(WORKED),
            "compaction": 0,
            "title": sum(TITLE),
            "memory": sum(NOTED),
            "middleware": sum(TITLE) + sum(NOTED),
        }
        assert report["by_model"]["small"]["total_tokens"] == sum(TITLE)
        big = report["by_model"]["big"]
        assert (big["input_tokens"], big["output_tokens"]) == (270, 27)
        assert (big["calls"], big["runs"]) == (4, 1)
        assert report["total_tokens"] == sum(report["by_caller"].values()) - report["by_caller"]["middleware"]
        assert (report["total_runs"], report["total_input_tokens"]) == (1, report["input_tokens"])
        full = report["context_usage"]
        assert (full["max_context_tokens"], full["token_count"] > 0) == (100_000, True)


async def test_usage_survives_the_compaction_of_its_messages_and_counts_it(
    metered: Gateway, provider: Provider
) -> None:
    async with new_thread(metered, talk(6)) as thread:
        await thread.run("and now?")
        before = await usage(thread, lambda found: found["by_caller"]["memory"] > 0)
        await thread.compacted()
        after = await usage(thread)
        assert after["by_caller"]["lead_agent"] == before["by_caller"]["lead_agent"] == sum(ANSWERED)
        assert after["by_caller"]["compaction"] == sum(SUMMARISED)
        assert after["context_usage"]["token_count"] < before["context_usage"]["token_count"]


async def test_a_run_that_was_taken_over_is_charged_each_call_once(
    tmp_path: Path, database_url: str, provider: Provider
) -> None:
    """The first worker is killed in its second call: the first one is in the checkpoint and is not made again."""
    provider.when(is_title_call, Reply("A garden", usage=TITLE))
    provider.sequence(
        Reply(None, tool_calls=(provider.call("list_files", {}),), usage=ANSWERED),
    )
    provider.hang()
    provider.always(Reply("Done.", usage=ANSWERED))
    settings = config(models=[stand_in("big", provider)])
    folders = [tmp_path / name for name in ("first", "second")]
    for folder in folders:
        folder.mkdir()
    async with running(folders[0], settings, database_url=database_url) as process:
        async with process.client() as client:
            thread_id = (await client.threads.create())["thread_id"]
            question: Any = {"messages": [{"role": "user", "content": "what is there?"}]}
            run = await client.runs.create(thread_id, "agent", input=question)
            async with asyncio.timeout(WAIT_S):
                while not any(last_role(request) == "tool" for request in provider.chats):
                    await asyncio.sleep(0.05)
        process.kill()
    async with serving(folders[1], database_url, settings) as gateway, gateway.client() as client:
        async with asyncio.timeout(WAIT_S):
            await client.runs.join(thread_id, run["run_id"])
        async with gateway.http() as http:
            report = (await http.get(f"/threads/{thread_id}/token-usage")).json()
    assert report["by_caller"]["lead_agent"] == 2 * sum(ANSWERED)


async def test_a_thread_without_runs_used_nothing_and_a_deleted_one_is_gone(gateway: Gateway) -> None:
    async with new_thread(gateway) as thread:
        report = await usage(thread)
        assert (report["total_tokens"], report["by_model"], report["total_runs"]) == (0, {}, 0)
        await thread.run("hello")
        assert (await usage(thread))["total_runs"] == 1
        await thread.client.threads.delete(thread.id)
        assert (await thread.http.get(f"/threads/{thread.id}/token-usage")).status_code == 404
        async with gateway.core.database.pool.connection() as conn:
            row = await (await conn.execute("SELECT count(*) AS left FROM token_usage")).fetchone()
        assert row == {"left": 0}
