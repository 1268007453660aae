"""Erasure: a text that went through every channel is nowhere any more."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from itertools import count
from pathlib import Path

import pytest
import pytest_asyncio

from app.errors import NotFound
from tests.support.answers import Fail, Reply, Request
from tests.support.canaries import files_with, tables_with
from tests.support.rig import SMALL, Rig, rigged
from tests.support.threads import SUMMARY, Thread, new_thread, talk

pytestmark = pytest.mark.asyncio(loop_scope="module")

LATIN, CHINESE = "zwiebelkuchenqx", "紫色刺猬灯塔"
CANARIES = (LATIN, CHINESE)
SAID = f"Plant the {LATIN} beside {CHINESE} please"
PATIENCE_S = 20
# Every table that a text of a thread gets into.
EXPECTED = {
    "threads",
    "runs",
    "run_events",
    "checkpoint_blobs",
    "checkpoint_writes",
    "compactions",
    "archived_messages",
    "recall_words",
    "recall_terms",
    "store",
}


def is_memory_call(request: Request) -> bool:
    return "<memory_transcript>" in request.text


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def served(tmp_path_factory: pytest.TempPathFactory, database_template: str) -> AsyncIterator[Rig]:
    sections = {"memory": {"enabled": True, "debounce_s": 0.05}, "title": {"enabled": True}}
    async with rigged(tmp_path_factory.mktemp("erasure"), database_template, SMALL, **sections) as rig:
        notes = {"facts": [{"key": "plan", "text": f"Wants the {LATIN} beside {CHINESE}."}], "forget": []}
        rig.provider.when(is_memory_call, Reply(json.dumps(notes, ensure_ascii=False)))
        yield rig


def data_folder(rig: Rig) -> Path:
    return rig.gateway.core.settings.data_dir


async def kept(rig: Rig) -> set[str]:
    async with rig.gateway.core.database.pool.connection() as connection:
        return set().union(*[await tables_with(connection, canary) for canary in CANARIES])


async def fill(rig: Rig, thread: Thread) -> None:
    """Say it in every way there is."""
    await thread.client.threads.update(thread.id, metadata={"about": SAID})
    rig.summarizer(Fail(400, {"error": {"message": f"cannot read {SAID}"}}))
    await thread.put([{"type": "human", "id": "h", "content": SAID}, *talk(18)])
    assert (await thread.compact(instructions=SAID)).status_code == 502
    rig.summarizer(Reply(f"{SUMMARY}\n{SAID}"))
    await thread.compacted(dry_run="summary")
    await thread.compacted(instructions=SAID)
    rig.agent(Reply(f"Gladly: {SAID}"))
    await thread.run(SAID)
    rig.agent(Fail(400, {"error": {"message": f"cannot read {SAID}"}}))
    await thread.run(SAID)
    folder = data_folder(rig) / "workspaces" / thread.id / CHINESE
    folder.mkdir(parents=True)
    (folder / "plan.md").write_text(SAID)
    await until(lambda: all_found(rig))


async def all_found(rig: Rig) -> bool:
    return await kept(rig) >= EXPECTED


async def until(condition: object) -> None:
    async with asyncio.timeout(PATIENCE_S):
        while not await condition():  # type: ignore[operator]
            await asyncio.sleep(0.05)


async def test_after_a_thread_was_erased_nothing_of_it_is_left(rig: Rig) -> None:
    async with new_thread(rig.gateway) as thread, new_thread(rig.gateway, talk(2)) as other:
        await fill(rig, thread)
        erased = await rig.gateway.core.services.upkeep.erasure.erase_thread(thread.id)
        assert erased.threads == [thread.id]
        assert await kept(rig) == set()
        assert not any(files_with(data_folder(rig) / "workspaces", canary) for canary in CANARIES)
        assert len(await other.messages()) == 4


async def test_a_deleted_thread_leaves_nothing_but_what_is_known_of_the_person(rig: Rig) -> None:
    async with new_thread(rig.gateway) as thread:
        await fill(rig, thread)
        await thread.client.threads.delete(thread.id)
        assert await kept(rig) == {"store"}
        assert not any(files_with(data_folder(rig) / "workspaces", canary) for canary in CANARIES)
        await thread.http.delete("/memory")
        assert await kept(rig) == set()


async def test_after_an_owner_was_erased_nothing_is_left(rig: Rig) -> None:
    async with new_thread(rig.gateway) as thread:
        await fill(rig, thread)
        item = {"namespace": ["notes"], "key": "k", "value": {"text": SAID}}
        assert (await thread.http.put("/store/items", json=item)).status_code == 204
        assert (await thread.http.put("/memory/own", json={"text": SAID})).status_code == 200
        made = await thread.http.post("/assistants", json={"graph_id": "agent", "name": SAID})
        assert made.status_code == 200
        others = await rig.gateway.core.services.upkeep.erasure.erase_owner("somebody else")
        assert list(others.threads) == []
        assert await kept(rig) >= {*EXPECTED, "assistant_versions"}
        erased = await rig.gateway.core.services.upkeep.erasure.erase_owner("")
        assert thread.id in erased.threads
        assert await kept(rig) == set()


@pytest.mark.parametrize("whole_owner", [False, True])
async def test_before_removed_messages_are_sorted_in_they_are_erased_as_well(
    rig: Rig, whole_owner: bool
) -> None:
    async with new_thread(rig.gateway) as thread:
        copied = await packed(rig, thread)
        assert await kept(rig) >= {"archive_packs"}
        erasure = rig.gateway.core.services.upkeep.erasure
        if whole_owner:
            await erasure.erase_owner("")
        else:
            for thread_id in (thread.id, copied.id):
                await erasure.erase_thread(thread_id)
        assert await kept(rig) == set()


async def packed(rig: Rig, thread: Thread) -> Thread:
    """Compact the thread and copy it before anybody sorts in what was removed."""
    for number in count():
        said = {"type": "human", "id": f"h{number}", "content": SAID}
        await thread.put([said, *talk(18, start=number * 18)])
        await thread.compacted()
        answer = await thread.http.post(f"/threads/{thread.id}/copy")
        copied = Thread(answer.json()["thread_id"], thread.client, thread.http)
        if await waiting(rig, thread) and await waiting(rig, copied):
            break
        await thread.client.threads.delete(copied.id)
    return copied


async def waiting(rig: Rig, thread: Thread) -> bool:
    async with rig.gateway.core.database.pool.connection() as connection:
        found = await connection.execute("SELECT 1 FROM archive_packs WHERE thread_id = %s", (thread.id,))
        return await found.fetchone() is not None


async def test_by_age_only_what_is_old_and_idle_is_erased(rig: Rig) -> None:
    erasure = rig.gateway.core.services.upkeep.erasure
    async with new_thread(rig.gateway, talk(1)) as old, new_thread(rig.gateway, talk(1)) as busy:
        await busy.client.runs.create(busy.id, "agent", input=None, after_seconds=60)
        assert list((await erasure.erase_older_than(3600)).threads) == []
        await age(rig)
        async with new_thread(rig.gateway, talk(1)) as young:
            assert list((await erasure.erase_older_than(3600)).threads) == [old.id]
            assert len(await young.messages()) == 2
        assert len(await busy.messages()) == 2


async def age(rig: Rig) -> None:
    """Everything happened two hours ago."""
    async with rig.gateway.core.database.pool.connection() as connection:
        await connection.execute("UPDATE threads SET updated_at = now() - interval '2 hours'")
        await connection.execute("UPDATE runs SET finished_at = now() - interval '2 hours'")


async def test_a_thread_that_is_not_there_cannot_be_erased(rig: Rig) -> None:
    with pytest.raises(NotFound):
        await rig.gateway.core.services.upkeep.erasure.erase_thread("nowhere")
