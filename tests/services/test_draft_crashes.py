"""A process that is killed while it applies a draft: the draft is applied, or can be applied still (rule F1)."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, suppress
from pathlib import Path

import httpx
import pytest

from app.persistence.database import connect
from tests.services.test_compaction_crashes import Scene, said
from tests.support.provider import Provider
from tests.support.threads import Thread, is_summary_call, new_thread, seen_from, talk

HISTORY = talk(12)
OWN = "## Intent\nForty beds, by a person."


@pytest.fixture
async def scene(tmp_path: Path, database_url: str, provider: Provider) -> AsyncIterator[Scene]:
    async with await connect(database_url) as database:
        scene = Scene(tmp_path, database_url, provider, database)
        provider.when(is_summary_call, scene.summarize)
        yield scene


async def drafted(scene: Scene, thread: Thread) -> str:
    known = len(scene.provider.chats)
    call = asyncio.create_task(thread.compacted(dry_run="summary"))
    await scene.provider.asked(known + 1)
    scene.provider.release()
    return str((await call)["compaction_id"])


async def apply(thread: Thread, draft: str) -> httpx.Response:
    path = f"/threads/{thread.id}/compactions/{draft}/apply"
    return await thread.http.post(path, json={"summary_text": OWN})


async def unanswered(thread: Thread, draft: str) -> None:
    with suppress(httpx.HTTPError):
        await apply(thread, draft)


async def is_applied(thread: Thread, draft: str) -> None:
    [record] = await thread.records()
    assert (record["status"], record["compaction_id"], record["edited"]) == ("committed", draft, True)
    assert (await thread.values())["summary_text"] == OWN
    removed = (await thread.record(draft))["removed_messages"]
    assert said(removed) + said(await thread.messages()) == said(HISTORY)


@pytest.mark.timeout(120)
async def test_killed_between_the_halves_a_draft_is_applied_or_can_be_still(scene: Scene) -> None:
    async with AsyncExitStack() as stack:
        victim = await stack.enter_async_context(scene.victim())
        written, unwritten = [await stack.enter_async_context(new_thread(victim, HISTORY)) for _ in range(2)]
        drafts = [await drafted(scene, thread) for thread in (written, unwritten)]
        noting = await stack.enter_async_context(await connect(scene.url))
        async with noting.transaction():
            async with scene.database.transaction():
                # The archive gets written, the state does not.
                await scene.database.execute("LOCK TABLE checkpoints IN EXCLUSIVE MODE")
                calls = [asyncio.create_task(unanswered(written, drafts[0]))]
                await scene.stuck(1)
                await noting.execute(
                    "SELECT 1 FROM compactions WHERE thread_id = %s FOR UPDATE", (written.id,)
                )
            while not await scene.one("n", _STORED, written.id):
                await asyncio.sleep(0.02)
            await scene.stuck(1)
            async with scene.database.transaction():
                await scene.database.execute("LOCK TABLE checkpoints IN EXCLUSIVE MODE")
                calls.append(asyncio.create_task(unanswered(unwritten, drafts[1])))
                await scene.stuck(2)
                await scene.kill(victim)
        await asyncio.gather(*calls)
        witness = await stack.enter_async_context(scene.witness())
        done, undone = [
            await stack.enter_async_context(seen_from(witness, thread)) for thread in (written, unwritten)
        ]
        for thread in (done, undone):
            await scene.time_passes(thread)
        assert (await apply(done, drafts[0])).json()["code"] == "draft_applied"
        await is_applied(done, drafts[0])
        assert said(await undone.messages()) == said(HISTORY)
        [record] = await undone.records()
        assert (record["status"], record["reason"]) == ("failed", "not_committed")
        assert (await apply(undone, drafts[1])).status_code == 200
        await is_applied(undone, drafts[1])


_STORED = "SELECT count(*) AS n FROM checkpoints WHERE thread_id = %s AND metadata ? 'compaction_id'"
