"""Compactions of several processes on one database, and of a process that is told to stop."""

from __future__ import annotations

import asyncio
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.support.answers import Hang, Reply
from tests.support.provider import Provider
from tests.support.rig import SMALL
from tests.support.service import config, running
from tests.support.threads import (
    SUMMARY,
    Thread,
    is_summary_call,
    new_thread,
    seen_from,
    stand_in,
    summaries_asked,
    talk,
)

HISTORY = talk(12)
SLOW = "Take your time."
SLOW_HISTORY = [{"type": "human", "id": "mark", "content": SLOW}, *HISTORY]


def settings(provider: Provider) -> dict[str, Any]:
    return config(
        models=[stand_in("main", provider)],
        summarization=SMALL,
        server={"shutdown_grace_s": 1.5},
    )


@pytest.mark.timeout(120)
async def test_two_processes_compact_a_thread_once(
    tmp_path: Path, database_url: str, provider: Provider
) -> None:
    provider.when(is_summary_call, Hang(then=Reply(SUMMARY)))
    async with AsyncExitStack() as stack:
        places = []
        for name in ("first", "second"):
            (tmp_path / name).mkdir()
            places.append(running(tmp_path / name, settings(provider), database_url=database_url))
        first, second = await asyncio.gather(*map(stack.enter_async_context, places))
        here = await stack.enter_async_context(new_thread(first, HISTORY))
        there = await stack.enter_async_context(seen_from(second, here))
        calls = [asyncio.create_task(place.compact()) for place in (here, there)]
        done, waiting = await asyncio.wait(calls, return_when=asyncio.FIRST_COMPLETED)
        refused = done.pop().result()
        assert (refused.status_code, refused.json()["code"]) == (409, "thread_busy")
        await summaries_asked(provider, 1)
        provider.release()
        answer = (await waiting.pop()).json()
        assert answer["compacted"]
        assert len(provider.chats) == 1
        for place in (here, there):
            assert len(await place.messages()) == answer["preserved_message_count"]
            assert [record["status"] for record in await place.records()] == ["committed"]
        assert (await there.compacted())["reason"] == "nothing_to_remove"


@pytest.mark.timeout(120)
async def test_a_process_that_is_told_to_stop_ends_compactions_whole_or_leaves_them_undone(
    tmp_path: Path, database_url: str, provider: Provider
) -> None:
    """One summary comes while the process stops, one comes too late."""
    stopping = False
    provider.when(
        lambda request: is_summary_call(request) and SLOW in request.text,
        lambda request: Reply(SUMMARY) if stopping else Hang(),
    )
    provider.when(is_summary_call, Hang(then=Reply(SUMMARY)))
    async with AsyncExitStack() as stack:
        (tmp_path / "stopping").mkdir()
        process = await stack.enter_async_context(
            running(tmp_path / "stopping", settings(provider), database_url=database_url)
        )
        late = await stack.enter_async_context(new_thread(process, SLOW_HISTORY))
        early = await stack.enter_async_context(new_thread(process, HISTORY))
        calls = [asyncio.create_task(told(thread)) for thread in (late, early)]
        await summaries_asked(provider, 2)
        stop = asyncio.create_task(process.stop())
        await refusing(process.api)
        provider.release()
        assert await stop == 0
        await asyncio.gather(*calls)
        stopping = True
        (tmp_path / "next").mkdir()
        successor = await stack.enter_async_context(
            running(tmp_path / "next", settings(provider), database_url=database_url)
        )
        undone = await stack.enter_async_context(seen_from(successor, late))
        done = await stack.enter_async_context(seen_from(successor, early))
        assert [record["status"] for record in await done.records()] == ["committed"]
        assert (await done.values())["summary_text"] == SUMMARY
        assert await undone.ids() == [message["id"] for message in SLOW_HISTORY]
        assert not (await undone.values()).get("summary_text")
        # The thread was given back at once, not after the time that a killed process holds it.
        assert (await undone.compacted())["compacted"]


async def told(thread: Thread) -> None:
    """The answer, if the process still gives one."""
    try:
        response = await thread.compact()
    except httpx.HTTPError:
        return
    assert response.status_code in (200, 503)


async def refusing(api: str) -> None:
    """Wait until the process takes no connection any more. Bounded by the test's time."""
    async with httpx.AsyncClient() as http:
        while True:
            try:
                await http.get(f"{api}/models")
            except httpx.HTTPError:
                return
            await asyncio.sleep(0.02)
