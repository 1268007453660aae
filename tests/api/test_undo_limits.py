"""What an undo is measured by: tokens, the window, the next compaction; and what nobody has any more."""

from __future__ import annotations

import pytest

from app.persistence.database import connect
from tests.support.answers import Reply
from tests.support.rig import SMALL, Rig, rigged, shared_rig
from tests.support.threads import new_thread, statuses, talk
from tests.support.undoing import channels, compacted, refused, said

pytestmark = pytest.mark.asyncio(loop_scope="module")

HISTORY = talk(14)


served = shared_rig("undo-limits", SMALL)


async def test_usage_reported_before_an_undo_does_not_count_after_it(rig: Rig) -> None:
    async with new_thread(rig.gateway, HISTORY) as thread:
        estimated = (await thread.context())["tokens"]["total"]
        compaction_id = await compacted(thread)
        rig.agent(Reply("ok", usage=(3500, 5)))
        await thread.run("how large is it?")
        assert (await thread.context())["tokens"]["total"] > 3500
        undone = await thread.undone(compaction_id)
        assert undone["tokens_after"] < estimated + 200
        assert (await thread.context())["tokens"]["total"] == undone["tokens_after"]


async def test_after_an_undo_automatic_compaction_waits_until_the_thread_has_grown(rig: Rig) -> None:
    async with new_thread(rig.gateway, talk(40)) as thread:
        compaction_id = await compacted(thread)
        undone = await thread.undone(compaction_id)
        assert undone["will_compact_again"] is False
        assert undone["tokens_after"] > 3000
        assert statuses(await thread.run("and now?")) == []
        context = await thread.context()
        assert context["tokens"]["total"] < context["next_trigger_tokens"]
        await thread.put(talk(20, start=200))
        assert statuses(await thread.run("and now?")) == ["started", "completed"]


async def test_what_was_erased_from_the_archive_cannot_be_brought_back(rig: Rig) -> None:
    async with new_thread(rig.gateway, HISTORY) as thread:
        compaction_id = await compacted(thread)
        assert len((await thread.record(compaction_id))["removed_messages"]) > 1
        async with await connect(rig.url) as conn:
            await conn.execute(
                "DELETE FROM archived_messages WHERE thread_id = %s AND message_id = 'q0'", (thread.id,)
            )
        refused(await thread.undo(compaction_id), "archive_incomplete", "1 of")
        assert [m["id"] for m in await said(thread)] == [m["id"] for m in HISTORY[1:]]


async def test_an_undo_that_would_overflow_the_model_is_refused_unless_forced(
    tmp_path_factory: pytest.TempPathFactory, database_template: str
) -> None:
    window = {"context_window": 8000, "max_tokens": 500}
    folder = tmp_path_factory.mktemp("window")
    async with (
        rigged(folder, database_template, SMALL, model=window) as rig,
        new_thread(rig.gateway, talk(120)) as thread,
    ):
        compaction_id = await compacted(thread)
        compact = await channels(thread)
        refused(await thread.undo(compaction_id), "would_overflow", "8000", "500", "force")
        assert await channels(thread) == compact
        assert [r["status"] for r in await thread.records()] == ["committed"]
        undone = await thread.undone(compaction_id, force=True)
        assert undone["will_compact_again"] is True
        assert len(await thread.messages()) == 240
        assert statuses(await thread.run("and now?")) == ["started", "completed"]
