"""``POST /threads/{t}/copy``: an independent thread that knows the same."""

from __future__ import annotations

from typing import Any

import psycopg
import pytest

from app.persistence.copies import COPIED, NOT_COPIED
from tests.support.rig import SMALL, Rig, shared_rig
from tests.support.threads import Thread, new_thread, talk

pytestmark = pytest.mark.asyncio(loop_scope="module")


served = shared_rig("copy", SMALL)


async def copied(thread: Thread) -> Thread:
    answer = await thread.http.post(f"/threads/{thread.id}/copy")
    assert answer.status_code == 200, answer.text
    return Thread(answer.json()["thread_id"], thread.client, thread.http)


async def history(thread: Thread) -> list[dict[str, Any]]:
    found = (await thread.http.post(f"/threads/{thread.id}/history", json={"limit": 1000})).json()
    return [
        {
            "id": state["checkpoint_id"],
            "parent": state["parent_checkpoint_id"],
            "values": state["values"],
            "next": state["next"],
        }
        for state in found
    ]


def said(conversation: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """All but the runs, which a copy does not have."""
    return [{**entry, "run_id": None} for entry in conversation]


def without(entries: list[dict[str, Any]], thread_id: str) -> list[dict[str, Any]]:
    return [{key: value for key, value in entry.items() if value != thread_id} for entry in entries]


async def test_a_copy_has_the_state_the_history_the_archive_and_the_records(rig: Rig) -> None:
    async with new_thread(rig.gateway, talk(20)) as thread:
        await thread.client.threads.update(thread.id, metadata={"topic": "beds"})
        await thread.compacted()
        await thread.run("what next?")
        assert (await thread.http.put(f"/threads/{thread.id}/messages/q19/pin")).status_code < 300
        copy = await copied(thread)
        shown = await copy.client.threads.get(copy.id)
        assert copy.id != thread.id
        assert shown["status"] == "idle"
        assert shown["metadata"]["topic"] == "beds"
        assert await copy.values() == await thread.values()
        assert await history(copy) == await history(thread)
        assert said(await copy.conversation()) == said(await thread.conversation())
        assert without(await copy.records(), copy.id) == without(await thread.records(), thread.id)
        assert await copy.client.runs.list(copy.id) == []


async def test_the_official_client_copies(rig: Rig) -> None:
    async with new_thread(rig.gateway, talk(2)) as thread:
        await thread.client.threads.copy(thread.id)
        found = await thread.client.threads.search(limit=100)
        twins = [other for other in found if other["thread_id"] != thread.id]
        assert len(await thread.messages()) == 4
        assert any(len((other.get("values") or {}).get("messages", [])) == 4 for other in twins)


async def test_neither_of_the_two_notices_what_happens_to_the_other(rig: Rig) -> None:
    async with new_thread(rig.gateway, talk(20)) as thread:
        await thread.compacted()
        copy = await copied(thread)
        kept = await copy.conversation()
        await thread.run("only here")
        assert await copy.conversation() == kept
        await thread.client.threads.delete(thread.id)
        assert await copy.conversation() == kept
        await copy.run("and on")
        assert len(await copy.conversation()) == len(kept) + 2


async def test_a_compaction_is_undone_in_the_copy_alone(rig: Rig) -> None:
    async with new_thread(rig.gateway, talk(20)) as thread:
        before = await thread.messages()
        done = await thread.compacted()
        copy = await copied(thread)
        await copy.undone(done["compaction_id"], force=True)
        assert await copy.messages() == before
        assert len(await thread.messages()) < len(before)
        assert (await thread.record(done["compaction_id"]))["status"] == "committed"
        assert (await copy.record(done["compaction_id"]))["status"] == "undone"
        again = await copied(copy)
        await again.redone(done["compaction_id"])
        assert len(await again.messages()) == len(await thread.messages())


async def test_what_was_compacted_is_found_in_the_copy(rig: Rig) -> None:
    async with new_thread(rig.gateway, talk(20)) as thread:
        await thread.compacted()
        copy = await copied(thread)
        for one in (thread, copy):
            found = (
                await one.http.get(f"/threads/{one.id}/messages/search", params={"q": "Question 3"})
            ).json()
            assert "q3" in [hit["message_id"] for hit in found["data"]]


async def test_a_busy_thread_is_not_copied(rig: Rig) -> None:
    async with new_thread(rig.gateway, talk(2)) as thread:
        await thread.client.runs.create(thread.id, "agent", input=None, after_seconds=60)
        answer = await thread.http.post(f"/threads/{thread.id}/copy")
        assert (answer.status_code, answer.json()["code"]) == (409, "thread_busy")


async def test_a_thread_that_is_not_there_is_not_copied(rig: Rig) -> None:
    async with rig.gateway.http() as http:
        answer = await http.post("/threads/0b8f5c2e-6b1f-4f0a-9a6e-2f7c6c1d9f10/copy")
        assert answer.status_code == 404


async def test_files_are_copied(rig: Rig) -> None:
    async with new_thread(rig.gateway, talk(1)) as thread:
        workspaces = rig.gateway.core.settings.data_dir / "workspaces"
        (workspaces / thread.id / "notes").mkdir(parents=True)
        (workspaces / thread.id / "notes" / "a.md").write_text("forty beds")
        (workspaces / thread.id / "out").symlink_to("/etc")
        copy = await copied(thread)
        assert (workspaces / copy.id / "notes" / "a.md").read_text() == "forty beds"
        assert (workspaces / copy.id / "out").is_symlink()
        await thread.client.threads.delete(thread.id)
        assert (workspaces / copy.id / "notes" / "a.md").exists()


async def test_an_interrupted_copy_leaves_nothing(rig: Rig) -> None:
    """What a process that was killed in the middle leaves: a thread that nobody sees, removed at the next start."""
    async with (
        new_thread(rig.gateway, talk(1)) as thread,
        await psycopg.AsyncConnection.connect(rig.url, autocommit=True) as connection,
    ):
        await connection.execute(
            """INSERT INTO threads (thread_id, owner, deleted_at, reserved_by, reserved_until)
               SELECT 'half-a-copy', owner, now(), gen_random_uuid(), now() + interval '1 hour'
               FROM threads WHERE thread_id = %s""",
            (thread.id,),
        )
        await rig.gateway.core.services.threads.finish_deletions()
        assert await count(connection, "half-a-copy") == 1
        await connection.execute("UPDATE threads SET reserved_until = now() WHERE thread_id = 'half-a-copy'")
        await rig.gateway.core.services.threads.finish_deletions()
        assert await count(connection, "half-a-copy") == 0


async def count(connection: psycopg.AsyncConnection[Any], thread_id: str) -> int:
    cursor = await connection.execute("SELECT count(*) FROM threads WHERE thread_id = %s", (thread_id,))
    row = await cursor.fetchone()
    return int(row[0]) if row else 0


async def test_of_every_table_it_is_decided_whether_it_is_copied(rig: Rig) -> None:
    async with await psycopg.AsyncConnection.connect(rig.url) as connection:
        cursor = await connection.execute(
            "SELECT table_name FROM information_schema.columns "
            "WHERE column_name = 'thread_id' AND table_schema = 'public'"
        )
        tables = {row[0] for row in await cursor.fetchall()}
    assert tables == {table.name for table in COPIED} | NOT_COPIED
