"""While a compaction works it is the thread's one writer, on every replica; a client that leaves changes nothing."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import httpx
import pytest
import pytest_asyncio
from langgraph_sdk.errors import ConflictError

from tests.support.answers import Hang, Reply
from tests.support.gateway import Gateway
from tests.support.rig import SMALL, Rig, shared_rig
from tests.support.threads import (
    SUMMARY,
    Thread,
    is_summary_call,
    new_thread,
    seen_from,
    summaries_asked,
    talk,
)

pytestmark = pytest.mark.asyncio(loop_scope="module")

HISTORY = talk(12)
QUESTION = {"messages": [{"role": "user", "content": "And now?"}]}


served = shared_rig("writers", SMALL)


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def replica(served: Rig, tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Gateway]:
    async with served.replica(tmp_path_factory.mktemp("replica")) as gateway:
        yield gateway


@asynccontextmanager
async def compacting(rig: Rig, thread: Thread) -> AsyncIterator[asyncio.Task[httpx.Response]]:
    """A compaction that waits for its summary within the block, and is over behind it."""
    rig.summarizer(Hang(then=Reply(SUMMARY)))
    before = sum(map(is_summary_call, rig.provider.chats))
    task = asyncio.create_task(thread.compact())
    await summaries_asked(rig.provider, before + 1)
    yield task
    rig.provider.release()
    await asyncio.wait({task})


async def committed(thread: Thread) -> bool:
    """Once, and nothing failed. Those who asked again later may have been told that nothing was left to do."""
    ended = [record["status"] for record in await thread.records()]
    return [status for status in ended if status != "skipped"] == ["committed"]


async def test_every_other_writer_is_refused_on_any_replica(rig: Rig, replica: Gateway) -> None:
    async with new_thread(rig.gateway, HISTORY) as thread, seen_from(replica, thread) as there:
        async with compacting(rig, thread) as compaction:
            for place in (thread, there):
                second = await place.compact()
                assert (second.status_code, second.json()["code"]) == (409, "thread_busy")
                with pytest.raises(ConflictError):
                    await place.put(talk(1, start=50))
                with pytest.raises(ConflictError):
                    await place.client.runs.create(
                        place.id, "agent", input=QUESTION, multitask_strategy="reject"
                    )
                with pytest.raises(ConflictError):
                    await place.client.threads.delete(place.id)
                assert await place.ids() == [message["id"] for message in HISTORY]
        assert compaction.result().json()["compacted"]
        assert await committed(there)
        await there.put(talk(1, start=50))
        assert (await there.ids())[-1] == "a50"


@pytest.mark.parametrize("strategy", ["enqueue", "interrupt", "rollback"])
@pytest.mark.parametrize("elsewhere", [False, True], ids=["here", "there"])
async def test_a_run_waits_for_the_compaction_and_works_on_its_result(
    rig: Rig, replica: Gateway, strategy: Any, elsewhere: bool
) -> None:
    async with new_thread(rig.gateway, HISTORY) as thread, seen_from(replica, thread) as there:
        place = there if elsewhere else thread
        async with compacting(rig, thread) as compaction:
            run = await place.client.runs.create(
                place.id, "agent", input=QUESTION, multitask_strategy=strategy
            )
            assert run["status"] == "pending"
            assert (await place.client.threads.get(place.id))["status"] == "busy"
            assert rig.agent_calls() == []
        done = compaction.result().json()
        assert done["compacted"]
        await place.client.runs.join(place.id, run["run_id"])
        (request,) = rig.agent_calls()
        assert SUMMARY.splitlines()[1] in request.text
        messages = await place.messages()
        assert len(messages) == done["preserved_message_count"] + 2
        assert [message["content"] for message in messages][-2:] == ["And now?", "ok"]
        assert await committed(place)


async def test_runs_that_wait_keep_their_order(rig: Rig) -> None:
    async with new_thread(rig.gateway, HISTORY) as thread:
        async with compacting(rig, thread):
            runs = [
                await thread.client.runs.create(
                    thread.id, "agent", input={"messages": [{"role": "user", "content": f"number {number}"}]}
                )
                for number in range(3)
            ]
        for run in runs:
            await thread.client.runs.join(thread.id, run["run_id"])
        said = [message["content"] for message in await thread.messages()]
        assert said[-6:] == ["number 0", "ok", "number 1", "ok", "number 2", "ok"]


async def test_a_client_that_leaves_changes_nothing(rig: Rig) -> None:
    async with new_thread(rig.gateway, HISTORY) as thread:
        async with compacting(rig, thread) as compaction:
            compaction.cancel()
            await asyncio.wait({compaction})
            # Whoever asks again learns that it is still at work.
            assert (await thread.compact()).status_code == 409
        await finished(thread)
        values = await thread.values()
        assert values["summary_text"] == SUMMARY
        assert len(values["messages"]) < len(HISTORY)
        assert len(rig.summary_calls()) == 1
        assert await committed(thread)


async def finished(thread: Thread) -> None:
    """The thread takes writes again. Bounded by the test's time."""
    while (await thread.compact()).status_code == 409:
        await asyncio.sleep(0.02)


async def test_two_compactions_at_once_commit_once(rig: Rig, replica: Gateway) -> None:
    async with new_thread(rig.gateway, HISTORY) as thread, seen_from(replica, thread) as there:
        for number in range(3):
            answers = await asyncio.gather(
                thread.compact(), there.compact(), thread.compact(), there.compact()
            )
            done = [answer.json() for answer in answers if answer.status_code == 200]
            refused = [answer.json()["code"] for answer in answers if answer.status_code != 200]
            assert [answer["compacted"] for answer in done].count(True) == 1
            assert {answer["reason"] for answer in done if not answer["compacted"]} <= {"nothing_to_remove"}
            assert set(refused) <= {"thread_busy"}
            await thread.put(talk(12, start=12 * (number + 1)))
        assert len([r for r in await thread.records() if r["status"] == "committed"]) == 3


async def test_a_state_write_and_a_compaction_at_once_leave_both_or_refuse_one(rig: Rig) -> None:
    async with new_thread(rig.gateway, HISTORY) as thread:
        for number in range(12, 17):
            extra = talk(1, start=number)
            wrote, compacted = await asyncio.gather(
                thread.put(extra), thread.compact(), return_exceptions=True
            )
            assert isinstance(wrote, ConflictError) or wrote is None
            assert isinstance(compacted, httpx.Response)
            present = extra[-1]["id"] in await thread.ids()
            assert present == (wrote is None)
            if compacted.status_code == 409:
                assert compacted.json()["code"] == "thread_busy"
