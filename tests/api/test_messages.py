"""``GET /messages``: the whole conversation, whatever compactions took out of the state."""

from __future__ import annotations

from datetime import datetime
from typing import Any

import pytest

from tests.support.rig import SMALL, Rig, shared_rig
from tests.support.threads import Message, Thread, new_thread, talk, tool_round

pytestmark = pytest.mark.asyncio(loop_scope="module")

HISTORY = talk(12)


served = shared_rig("messages", SMALL, dynamic_context={"enabled": True})


def said(entries: list[dict[str, Any]]) -> list[Message]:
    return [entry["message"] for entry in entries]


async def compacted(thread: Thread) -> str:
    done = await thread.compacted()
    assert done["compacted"], done
    return str(done["compaction_id"])


async def test_an_empty_thread_has_an_empty_page(rig: Rig) -> None:
    async with new_thread(rig.gateway) as thread:
        assert await thread.page() == {
            "data": [],
            "markers": [],
            "has_more": False,
            "next_before_seq": None,
            "total": 0,
        }


async def test_archived_and_live_messages_are_one_conversation_byte_for_byte(rig: Rig) -> None:
    odd: list[Message] = [
        {"type": "human", "id": "odd", "content": [{"type": "text", "text": "𝄞 and 😀"}]},
        *tool_round(1, 400, calls=2),
        {"type": "ai", "id": "meta", "content": "x", "response_metadata": {"model": "m", "n": 1.5, "l": [1]}},
    ]
    async with new_thread(rig.gateway, [*odd, *HISTORY]) as thread:
        before = (await thread.http.get(f"/threads/{thread.id}/state")).json()["values"]["messages"]
        first = await compacted(thread)
        await thread.put(talk(12, start=100))
        second = await compacted(thread)
        entries = await thread.conversation(limit=7)
        assert said(entries)[: len(before)] == before
        assert [entry["seq"] for entry in entries] == list(range(1, len(before) + 25))
        live = await thread.messages()
        assert [e["archived"] for e in entries] == [True] * (len(entries) - len(live)) + [False] * len(live)
        by = [entry["compaction_id"] for entry in entries]
        assert by == sorted(by, key=[first, second, None].index)
        assert by.count(first) > 20 and by.count(second) > 10
        assert said(entries)[-len(live) :] == live


async def test_pages_go_from_the_newest_to_the_oldest_and_read_downwards(rig: Rig) -> None:
    async with new_thread(rig.gateway, HISTORY) as thread:
        await compacted(thread)
        newest = await thread.page(limit=10)
        assert [entry["seq"] for entry in newest["data"]] == list(range(15, 25))
        assert (newest["has_more"], newest["next_before_seq"], newest["total"]) == (True, 15, 24)
        last = await thread.page(limit=200, before_seq=15)
        assert [entry["seq"] for entry in last["data"]] == list(range(1, 15))
        assert (last["has_more"], last["next_before_seq"]) == (False, None)
        assert (await thread.page(before_seq=1))["data"] == []
        assert (await thread.page(limit=24))["has_more"] is False


async def test_a_page_around_a_message_has_it_in_the_middle(rig: Rig) -> None:
    async with new_thread(rig.gateway, HISTORY) as thread:
        await compacted(thread)
        page = await thread.page(limit=5, around="a3")
        assert [m["id"] for m in said(page["data"])] == ["a2", "q3", "a3", "q4", "a4"]
        assert [m["id"] for m in said((await thread.page(limit=3, around="a11"))["data"])] == [
            "a10",
            "q11",
            "a11",
        ]
        missing = await thread.http.get(f"/threads/{thread.id}/messages", params={"around": "nobody"})
        assert (missing.status_code, missing.json()["code"]) == (404, "not_found")


async def test_compactions_stand_where_they_happened(rig: Rig) -> None:
    async with new_thread(rig.gateway, HISTORY) as thread:
        by_hand = await compacted(thread)
        await thread.put(talk(30, start=100))
        await thread.run("and now?")
        page = await thread.page(limit=200)
        manual, automatic = page["markers"]
        assert (manual["compaction_id"], manual["kind"], manual["after_seq"]) == (by_hand, "manual", 24)
        assert (automatic["kind"], automatic["status"]) == ("auto", "committed")
        question = next(e for e in page["data"] if e["message"]["content"] == "and now?")
        assert automatic["after_seq"] == question["seq"]
        record = await thread.record(automatic["compaction_id"])
        for name in ("tokens_before", "tokens_after", "removed_message_count", "run_id", "created_at"):
            assert automatic[name] == record[name] is not None
        assert [(m["undoable"], m["redoable"]) for m in page["markers"]] == [(False, False), (True, False)]
        parts = [await thread.page(limit=24, before_seq=seq) for seq in (25, 49, 73, 97)]
        assert [[m["kind"] for m in part["markers"]] for part in parts] == [["manual"], [], [], ["auto"]]


async def test_what_people_are_not_shown_is_left_out_unless_asked_for(rig: Rig) -> None:
    async with new_thread(rig.gateway) as thread:
        await thread.run("hello")
        shown, everything = await thread.page(), await thread.page(include_hidden=True)
        assert [(e["seq"], e["message"]["type"]) for e in shown["data"]] == [(2, "human"), (3, "ai")]
        assert [e["message"]["type"] for e in everything["data"]] == ["system", "human", "ai"]
        assert (await thread.page(limit=2))["has_more"] is False
        older = await thread.page(limit=1, before_seq=3)
        assert [e["seq"] for e in older["data"]] == [2]


async def test_an_answer_says_when_and_by_which_run_it_was_given(rig: Rig) -> None:
    async with new_thread(rig.gateway, HISTORY) as thread:
        await thread.run("hello")
        (run,) = await thread.client.runs.list(thread.id)
        for _ in range(2):
            question, answer = (await thread.page(limit=2, before_seq=28))["data"]
            assert (question["message"]["content"], answer["run_id"]) == ("hello", run["run_id"])
            assert str(run["created_at"]) <= answer["created_at"] <= run["updated_at"]
            assert abs(moment(question["created_at"]) - moment(str(run["created_at"]))).total_seconds() < 10
            assert (await thread.page(limit=1, before_seq=5))["data"][0]["created_at"] is None
            await thread.put(talk(6, start=50))
            await compacted(thread)


def moment(text: str) -> datetime:
    return datetime.fromisoformat(text)


async def test_a_compaction_that_was_taken_back_stays_in_its_place(rig: Rig) -> None:
    async with new_thread(rig.gateway, HISTORY) as thread:
        compaction_id = await compacted(thread)
        await thread.undone(compaction_id)
        await thread.put(talk(1, start=50))
        (marker,) = (await thread.page())["markers"]
        assert (marker["compaction_id"], marker["status"], marker["after_seq"]) == (
            compaction_id,
            "undone",
            24,
        )
        assert (marker["undoable"], marker["redoable"]) == (False, True)


async def test_a_fork_shows_its_own_branch(rig: Rig) -> None:
    async with new_thread(rig.gateway, HISTORY) as thread:
        before = await thread.state()
        await compacted(thread)
        await thread.put(talk(2, start=50))
        await thread.client.threads.update_state(
            thread.id, {"messages": talk(1, start=90)}, checkpoint=before["checkpoint"]
        )
        page = await thread.page(limit=200)
        assert [m["id"] for m in said(page["data"])] == [m["id"] for m in [*HISTORY, *talk(1, start=90)]]
        assert page["markers"] == []
        assert not any(entry["archived"] for entry in page["data"])


async def test_a_deleted_live_message_is_gone_and_an_edited_one_is_shown_as_it_is(rig: Rig) -> None:
    async with new_thread(rig.gateway, HISTORY) as thread:
        await compacted(thread)
        await thread.put([{"type": "remove", "id": "q11"}, {"type": "ai", "id": "a11", "content": "edited"}])
        entries = await thread.conversation()
        assert [m["id"] for m in said(entries)] == [m["id"] for m in HISTORY if m["id"] != "q11"]
        assert entries[-1]["message"]["content"] == "edited"


@pytest.mark.parametrize(
    ("query", "field"),
    [
        ({"limit": 0}, "limit"),
        ({"limit": 201}, "limit"),
        ({"before_seq": 0}, "before_seq"),
        ({"before_seq": "x"}, "before_seq"),
        ({"around": "a", "before_seq": 3}, "around"),
    ],
)
async def test_wrong_queries_are_refused_with_their_field(
    rig: Rig, query: dict[str, Any], field: str
) -> None:
    async with new_thread(rig.gateway) as thread:
        answer = await thread.http.get(f"/threads/{thread.id}/messages", params=query)
        assert (answer.status_code, answer.json()["code"]) == (422, "invalid_request")
        assert field in answer.json()["detail"]


async def test_an_unknown_thread_has_no_messages(rig: Rig) -> None:
    async with rig.gateway.http() as http:
        answer = await http.get("/threads/6f2a3a7e-0000-4000-8000-000000000000/messages")
        assert (answer.status_code, answer.json()["code"]) == (404, "not_found")


async def test_a_client_that_sends_the_whole_conversation_again_doubles_nothing(rig: Rig) -> None:
    async with new_thread(rig.gateway, HISTORY) as thread:
        await thread.run("The first question of today?")
        await compacted(thread)
        everything = said((await thread.page(limit=200))["data"])
        changed = {**everything[1], "content": "This was never said like that."}
        sent = [
            everything[0],
            changed,
            *everything[2:],
            {"type": "human", "id": "new", "content": "And now?"},
        ]
        await rig.gateway.client().runs.wait(thread.id, "agent", input={"messages": sent})
        after = said((await thread.page(limit=200))["data"])
        assert [m["id"] for m in after if m["id"] != changed["id"]][:-2] == [
            m["id"] for m in everything if m["id"] != changed["id"]
        ]
        assert [m["content"] for m in after].count(changed["content"]) == 1
        assert len({m["id"] for m in after}) == len(after) == len(everything) + 2
