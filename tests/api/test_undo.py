"""Taking a compaction back and making it again, over HTTP and in both forms of a checkpoint."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from tests.support.answers import Hang, Reply
from tests.support.rig import SMALL, Rig, shared_rig
from tests.support.threads import SUMMARY, Message, Thread, new_thread, seen_from, statuses, talk, tool_round
from tests.support.undoing import channels, compacted, refused, said

pytestmark = pytest.mark.asyncio(loop_scope="module")

HISTORY = [*talk(6), *tool_round(1, 600, calls=2), *talk(8, start=6)]
FIELDS = {
    "thread_id",
    "compaction_id",
    "target_id",
    "kind",
    "restored_message_count",
    "removed_message_count",
    "preserved_message_count",
    "summary_updated",
    "checkpoint_id",
    "total_tokens",
    "tokens_after",
    "duration_ms",
}
ASKED: dict[str, Any] = {"messages": [{"role": "user", "content": "?"}]}
NOBODY = "6f2a3a7e-0000-4000-8000-000000000000"


served = shared_rig("undo", SMALL)


full = shared_rig("full", SMALL, checkpoint_mode="full")


@pytest.fixture(params=["delta", "full"])
def either(request: pytest.FixtureRequest, served: Rig, full: Rig) -> Rig:
    """In both forms of a checkpoint."""
    rig = served if request.param == "delta" else full
    rig.reset()
    return rig


def last_of(values: dict[str, Any], count: int) -> list[Message]:
    messages: list[Message] = values["messages"]
    return messages[-count:]


async def test_an_undo_brings_back_what_was_there_and_keeps_what_was_said_since(either: Rig) -> None:
    async with new_thread(either.gateway, HISTORY) as thread:
        before = await channels(thread)
        context = await thread.context()
        done = await thread.compacted()
        await thread.put(talk(1, start=50))
        undone = await thread.undone(done["compaction_id"])
        after = await channels(thread)
        assert after == {"messages": [*before["messages"], *last_of(after, 2)]}
        assert [m["id"] for m in last_of(after, 2)] == ["q50", "a50"]
        assert set(undone) == {*FIELDS, "will_compact_again"}
        assert (undone["target_id"], undone["kind"]) == (done["compaction_id"], "undo")
        assert undone["restored_message_count"] == done["removed_message_count"]
        assert undone["preserved_message_count"] == len(HISTORY) + 2
        assert undone["tokens_after"] > context["tokens"]["total"] > undone["total_tokens"]
        assert undone["checkpoint_id"] == (await thread.state())["checkpoint"]["checkpoint_id"]
        assert (await thread.state())["next"] == []
        assert either.summary_calls() == either.summary_calls("main")[:1]


async def test_a_restored_thread_is_as_before_after_ten_more_runs_and_at_another_replica(
    rig: Rig, tmp_path_factory: pytest.TempPathFactory
) -> None:
    async with new_thread(rig.gateway, talk(5)) as thread, new_thread(rig.gateway, talk(5)) as untouched:
        compaction_id = await compacted(thread)
        await thread.undone(compaction_id)
        assert await channels(thread) == await channels(untouched)
        for number in range(10):
            rig.agent(Reply(f"Answer {number}"))
            for each in (thread, untouched):
                await each.run(f"Question {number}")
        assert statuses(await thread.run("last")) == statuses(await untouched.run("last")) == []
        texts = [[(m["type"], m["content"]) for m in await each.messages()] for each in (thread, untouched)]
        assert texts[0] == texts[1]
        async with (
            rig.replica(tmp_path_factory.mktemp("replica")) as other,
            seen_from(other, thread) as there,
        ):
            assert await channels(there) == await channels(thread)
            assert [m["content"] for m in await said(there)] == [text for _, text in texts[1]]


async def test_redo_makes_the_same_compaction_again_and_keeps_what_was_said_since(rig: Rig) -> None:
    async with new_thread(rig.gateway, HISTORY) as thread:
        compaction_id = await compacted(thread)
        compact = await channels(thread)
        await thread.undone(compaction_id)
        await thread.run("and now?")
        everything = await said(thread)
        rig.mark()
        redone = await thread.redone(compaction_id)
        assert rig.summary_calls() == []
        assert set(redone) == FIELDS
        assert (redone["target_id"], redone["kind"]) == (compaction_id, "redo")
        after = await channels(thread)
        assert after["summary_text"] == compact["summary_text"] == SUMMARY
        assert after["messages"] == [*compact["messages"], *last_of(after, 2)]
        assert redone["removed_message_count"] == len(everything) - len(after["messages"])
        assert await said(thread) == everything
        entries = await thread.conversation()
        assert {e["compaction_id"] for e in entries if e["archived"]} == {compaction_id}
        await thread.undone(compaction_id)
        assert await thread.messages() == everything
        await thread.redone(compaction_id)
        assert await channels(thread) == after


async def test_compactions_are_taken_back_one_by_one_and_made_again_in_their_order(either: Rig) -> None:
    async with new_thread(either.gateway, HISTORY) as thread:
        states = [await channels(thread)]
        first = await compacted(thread)
        states.append(await channels(thread))
        either.summarizer(Reply(SUMMARY.replace("forty", "fifty")))
        await thread.put(talk(12, start=50))
        grown = await channels(thread)
        second = await compacted(thread)
        states.append(await channels(thread))
        refused(await thread.undo(first), "not_newest_compaction", second)
        await thread.undone(second)
        assert await channels(thread) == grown
        refused(await thread.undo(second), "not_newest_compaction", first)
        refused(await thread.redo(first), "not_redoable", second)
        await thread.undone(first)
        both = [*states[0]["messages"], *last_of(grown, 24)]
        assert (await channels(thread)) == {"messages": both}
        refused(await thread.undo(first), "not_newest_compaction", "there is none")
        refused(await thread.redo(second), "not_redoable", first)
        await thread.redone(first)
        assert await channels(thread) == grown
        await thread.redone(second)
        assert await channels(thread) == states[2]
        refused(await thread.redo(second), "not_redoable")
        assert await said(thread) == both


async def test_records_tell_of_undo_and_redo(rig: Rig) -> None:
    async with new_thread(rig.gateway, HISTORY) as thread:
        compaction_id = await compacted(thread)
        undone = await thread.undone(compaction_id)
        undo, made = await thread.records()
        assert (made["status"], undo["status"]) == ("undone", "committed")
        assert (undo["kind"], undo["target_id"], undo["previous_id"]) == (
            "undo",
            compaction_id,
            compaction_id,
        )
        assert (undo["tokens_before"], undo["tokens_after"]) == (
            undone["total_tokens"],
            undone["tokens_after"],
        )
        assert undo["checkpoint_before"] == made["checkpoint_after"]
        assert undo["checkpoint_after"] == undone["checkpoint_id"]
        whole = await thread.record(undo["compaction_id"])
        assert (whole["removed_messages"], whole["summary_text"]) == ([], None)
        await thread.redone(compaction_id)
        redo, undo, made = await thread.records()
        assert [r["status"] for r in (redo, undo, made)] == ["committed", "undone", "committed"]
        assert (redo["kind"], redo["target_id"], redo["previous_id"]) == (
            "redo",
            compaction_id,
            undo["compaction_id"],
        )
        again, first = await thread.record(redo["compaction_id"]), await thread.record(compaction_id)
        assert again["removed_messages"] == first["removed_messages"] != []
        assert (again["summary_text"], again["model_name"]) == (first["summary_text"], first["model_name"])
        page = await thread.page()
        assert [(m["compaction_id"], m["status"]) for m in page["markers"]] == [(compaction_id, "committed")]
        assert page["markers"][0]["undoable"] and not page["markers"][0]["redoable"]


async def test_of_a_chain_of_undo_and_redo_only_the_newest_is_in_force(rig: Rig) -> None:
    async with new_thread(rig.gateway, HISTORY) as thread:
        first = await compacted(thread)
        await thread.put(talk(12, start=100))
        second = await compacted(thread)
        for _ in range(2):
            await thread.undone(second)
            assert await told(thread, second) == [("undo", "committed"), ("manual", "undone")]
            await thread.redone(second)
            assert await told(thread, second) == [("redo", "committed"), ("manual", "committed")]
        await thread.undone(second)
        await thread.undone(first)
        in_force = [r for r in await thread.records() if r["status"] == "committed"]
        assert [(r["kind"], r["target_id"]) for r in in_force] == [("undo", first), ("undo", second)]
        # What was taken back is a record still, and its messages can be seen.
        redos = [r for r in await thread.records() if r["kind"] == "redo"]
        assert [r["status"] for r in redos] == ["undone"] * 2
        for redo in redos:
            assert (await thread.record(redo["compaction_id"]))["removed_messages"]


async def told(thread: Thread, compaction_id: str) -> list[tuple[str, str]]:
    """Kind and status of what is said of a compaction, without what was taken back before its last change."""
    of = [r for r in await thread.records() if compaction_id in (r["target_id"], r["compaction_id"])]
    newest, *between, made = of
    assert {r["status"] for r in between} <= {"undone"}
    return [(newest["kind"], newest["status"]), (made["kind"], made["status"])]


async def test_what_was_edited_or_deleted_since_stays_so_and_prevents_a_redo(rig: Rig) -> None:
    async with new_thread(rig.gateway, HISTORY) as thread:
        compaction_id = await compacted(thread)
        await thread.put(
            [{"type": "human", "id": "q13", "content": "edited"}, {"type": "remove", "id": "a13"}]
        )
        await thread.undone(compaction_id)
        messages = await thread.messages()
        assert [m["id"] for m in messages] == [m["id"] for m in HISTORY if m["id"] != "a13"]
        assert messages[-1]["content"] == "edited"
        await thread.put([{"type": "human", "id": "q0", "content": "changed after the undo"}])
        refused(await thread.redo(compaction_id), "not_redoable", "q0")
        assert [m["id"] for m in await said(thread)] == [m["id"] for m in messages]


async def test_a_compaction_after_an_undo_ends_what_could_be_made_again(rig: Rig) -> None:
    async with new_thread(rig.gateway, HISTORY) as thread:
        first = await compacted(thread)
        await thread.undone(first)
        second = await compacted(thread)
        refused(await thread.redo(first), "not_redoable", "none")
        refused(await thread.undo(first), "not_newest_compaction", second)
        await thread.undone(second)
        assert [m["id"] for m in await said(thread)] == [m["id"] for m in HISTORY]


async def test_a_fork_to_before_the_compaction_has_nothing_to_take_back(rig: Rig) -> None:
    async with new_thread(rig.gateway, HISTORY) as thread:
        before = await thread.state()
        first = await compacted(thread)
        compact = await thread.state()
        await fork(thread, before)
        refused(await thread.undo(first), "not_newest_compaction", "there is none")
        await thread.undone(await compacted(thread))
        assert [m["id"] for m in await said(thread)] == [*(m["id"] for m in HISTORY), "q90", "a90"]
        await fork(thread, compact)
        await thread.undone(first)
        assert [m["id"] for m in await said(thread)] == [*(m["id"] for m in HISTORY), "q90", "a90"]


async def fork(thread: Thread, state: dict[str, Any]) -> None:
    await thread.client.threads.update_state(
        thread.id, {"messages": talk(1, start=90)}, checkpoint=state["checkpoint"]
    )


async def test_a_run_that_compacted_and_is_taken_back_leaves_the_compaction_before_it(either: Rig) -> None:
    async with new_thread(either.gateway, HISTORY) as thread:
        first = await compacted(thread)
        await thread.put(talk(30, start=50))
        everything = await said(thread)
        either.agent(Hang())
        run = await thread.client.runs.create(thread.id, "agent", input=ASKED)
        while len(await thread.records()) < 2 or not either.agent_calls():
            await asyncio.sleep(0.02)
        assert (await thread.undo(first)).json()["code"] == "thread_busy"
        assert (await thread.redo(first)).json()["code"] == "thread_busy"
        await thread.client.runs.cancel(thread.id, run["run_id"], wait=True, action="rollback")
        assert await said(thread) == everything
        second = (await thread.records())[0]
        assert second["status"] == "rolled_back"
        refused(await thread.undo(second["compaction_id"]), "not_newest_compaction", first, "rolled_back")
        await thread.undone(first)
        assert await thread.messages() == everything


async def test_unknown_and_uncommitted_compactions_are_told_apart(rig: Rig) -> None:
    async with new_thread(rig.gateway, HISTORY) as thread:
        for action in (thread.undo, thread.redo):
            missing = await action(NOBODY)
            assert (missing.status_code, missing.json()["code"]) == (404, "not_found")
            assert (await action("no-uuid")).status_code == 422
        await compacted(thread)
        assert (await thread.compacted())["reason"] == "nothing_to_remove"
        skipped = (await thread.records())[0]
        refused(await thread.undo(skipped["compaction_id"]), "not_newest_compaction", "skipped")
        refused(await thread.redo(skipped["compaction_id"]), "not_redoable", "skipped")
        wrong = await thread.undo(skipped["compaction_id"], sure=True)
        assert (wrong.status_code, "sure" in wrong.json()["detail"]) == (422, True)
