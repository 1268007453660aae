"""``POST /threads/prune``: threads lose what they do not need, and read as before."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.support.answers import Reply, ToolCall
from tests.support.rig import SMALL, Rig, shared_rig
from tests.support.threads import Thread, new_thread, seen_from, talk

pytestmark = pytest.mark.asyncio(loop_scope="module")


served = shared_rig("prune", SMALL, modes=("delta", "full"))


async def pruned(thread: Thread, strategy: str = "keep_latest", *more: str) -> dict[str, Any]:
    body = {"thread_ids": [thread.id, *more], "strategy": strategy}
    answer = await thread.http.post("/threads/prune", json=body)
    assert answer.status_code == 200, answer.text
    return answer.json()  # type: ignore[no-any-return]


async def history(thread: Thread) -> list[dict[str, Any]]:
    return (await thread.http.post(f"/threads/{thread.id}/history", json={"limit": 1000})).json()  # type: ignore[no-any-return]


async def storage(thread: Thread) -> dict[str, int]:
    return (await thread.http.get(f"/threads/{thread.id}/storage")).json()  # type: ignore[no-any-return]


async def test_a_pruned_thread_is_the_same_and_smaller(rig: Rig) -> None:
    async with new_thread(rig.gateway) as thread:
        for number in range(6):
            await thread.run(f"question {number}")
        state, before, size = await thread.state(), await thread.conversation(), await storage(thread)
        answer = await pruned(thread)
        assert answer["pruned_count"] == 1
        assert answer["skipped"] == []
        assert answer["removed_checkpoints"] > 10
        after = await thread.state()
        assert after["values"] == state["values"]
        assert after["checkpoint_id"] == state["checkpoint_id"]
        assert after["next"] == state["next"]
        assert [entry["checkpoint_id"] for entry in await history(thread)] == [state["checkpoint_id"]]
        assert await thread.conversation() == before
        assert (await storage(thread))["checkpoints"] < size["checkpoints"] / 2
        assert (await pruned(thread))["removed_checkpoints"] == 0


async def test_it_goes_on_as_if_nothing_had_been(rig: Rig, tmp_path: Path) -> None:
    async with new_thread(rig.gateway) as thread, new_thread(rig.gateway) as twin:
        for one in (thread, twin):
            for number in range(3):
                await one.run(f"question {number}")
        await pruned(thread)
        for one in (thread, twin):
            for number in range(3, 6):
                await one.run(f"question {number}")
        assert texts(await thread.messages()) == texts(await twin.messages())
        assert len(await thread.messages()) == 12
        async with rig.replica(tmp_path) as replica, seen_from(replica, thread) as elsewhere:
            assert await elsewhere.values() == await thread.values()
        await pruned(thread)
        assert texts(await thread.messages()) == texts(await twin.messages())


async def test_a_thread_with_a_snapshot_of_its_own_stays_readable(rig: Rig) -> None:
    """LangGraph writes one after a hundred updates; what came since are deltas again."""
    ids = [f"m{number}" for number in range(106)]
    steps = [{"updates": [{"values": {"messages": [note(id)]}, "as_node": "model"}]} for id in ids[:104]]
    async with rig.gateway.client() as client, rig.gateway.http() as http:
        made = await client.threads.create(supersteps=steps, graph_id="agent")
        thread = Thread(made["thread_id"], client, http)
        for id in ids[104:]:
            await pruned(thread)
            await thread.put([note(id)])
        await pruned(thread)
        assert await thread.ids() == ids


def note(id: str) -> dict[str, Any]:
    return {"type": "human", "id": id, "content": f"note {id}"}


def texts(messages: list[dict[str, Any]]) -> list[str]:
    return [message["content"] for message in messages]


async def test_the_last_compaction_can_be_undone_and_redone(rig: Rig) -> None:
    async with new_thread(rig.gateway, talk(20)) as thread:
        before = await thread.messages()
        done = await thread.compacted()
        compacted = await thread.messages()
        whole = await thread.conversation()
        await pruned(thread)
        assert await thread.conversation() == whole
        await thread.undone(done["compaction_id"], force=True)
        assert await thread.messages() == before
        await pruned(thread)
        await thread.redone(done["compaction_id"])
        assert await thread.messages() == compacted
        await pruned(thread)
        assert await thread.conversation() == whole


async def test_both_sides_of_the_last_compaction_can_be_read_and_forked(rig: Rig) -> None:
    async with new_thread(rig.gateway, talk(8)) as thread:
        before = await thread.messages()
        await thread.compacted()
        await thread.run("on")
        newest, *older = [entry["checkpoint_id"] for entry in await history(thread)]
        record = (await thread.records())[0]
        await pruned(thread)
        kept = await history(thread)
        expected = [newest, record["checkpoint_after"], record["checkpoint_before"]]
        assert [entry["checkpoint_id"] for entry in kept] == expected
        assert len(older) > 3
        assert [entry["parent_checkpoint_id"] for entry in kept] == [*expected[1:], None]
        assert kept[-1]["values"]["messages"] == before
        await thread.run("another way", checkpoint={"checkpoint_id": expected[-1], "checkpoint_ns": ""})
        forked = await thread.messages()
        assert texts(forked) == [*texts(before), "another way", "ok"]


async def test_an_open_question_stays_open(rig: Rig) -> None:
    asked = ToolCall("ask_clarification", {"question": "Which bed?"}, "call-1")
    async with new_thread(rig.gateway) as thread:
        await thread.run("plant")
        rig.agent(Reply(tool_calls=[asked]))
        await thread.run("and now?", interrupt_before=["tools"])
        state = await thread.state()
        assert state["next"] == ["tools"]
        await pruned(thread)
        after = await thread.state()
        assert {**after, "parent_checkpoint": None, "parent_checkpoint_id": None} == {
            **state,
            "parent_checkpoint": None,
            "parent_checkpoint_id": None,
        }


async def test_busy_and_unknown_threads_are_named_and_left_alone(rig: Rig) -> None:
    missing = "0b8f5c2e-6b1f-4f0a-9a6e-2f7c6c1d9f10"
    async with new_thread(rig.gateway, talk(2)) as thread, new_thread(rig.gateway, talk(2)) as busy:
        waiting = await busy.client.runs.create(busy.id, "agent", input=None, after_seconds=600)
        for strategy in ("keep_latest", "delete"):
            answer = await pruned(thread, strategy, busy.id, missing, thread.id)
            assert answer["pruned_count"] == 1
            assert answer["skipped"] == [
                {"thread_id": busy.id, "reason": "busy"},
                {"thread_id": missing, "reason": "not_found"},
            ]
        assert (await thread.http.get(f"/threads/{thread.id}")).status_code == 404
        assert len(await busy.messages()) == 4
        await busy.client.runs.cancel(busy.id, waiting["run_id"], wait=True)


async def test_the_official_client_prunes(rig: Rig) -> None:
    async with new_thread(rig.gateway, talk(2)) as thread:
        kept = await thread.client.threads.prune([thread.id], strategy="keep_latest")
        assert kept["pruned_count"] == 1
        assert len(await thread.messages()) == 4
        assert (await thread.client.threads.prune([thread.id]))["pruned_count"] == 1
        assert (await thread.http.get(f"/threads/{thread.id}")).status_code == 404


@pytest.mark.parametrize(
    "body",
    [{}, {"thread_ids": "x"}, {"thread_ids": ["no uuid"]}, {"thread_ids": [], "strategy": "keep_all"}],
)
async def test_a_wrong_body_is_refused(rig: Rig, body: dict[str, Any]) -> None:
    async with rig.gateway.http() as http:
        answer = await http.post("/threads/prune", json=body)
        assert (answer.status_code, answer.json()["code"]) == (422, "invalid_request")


async def test_storage_tells_the_kinds_apart(rig: Rig) -> None:
    async with new_thread(rig.gateway, talk(20)) as thread:
        await thread.compacted()
        await thread.run("on")
        folder = rig.gateway.core.settings.data_dir / "workspaces" / thread.id
        folder.mkdir(parents=True)
        (folder / "a.txt").write_text("x" * 123)
        sizes = await storage(thread)
        assert set(sizes) == {"checkpoints", "archive", "events", "records", "workspace"}
        assert sizes["workspace"] == 123
        assert all(size > 0 for size in sizes.values())
        missing = await thread.http.get("/threads/0b8f5c2e-6b1f-4f0a-9a6e-2f7c6c1d9f10/storage")
        assert missing.status_code == 404
