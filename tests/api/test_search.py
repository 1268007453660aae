"""``GET /threads/{t}/messages/search``: people find messages again, archived and live."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any
from uuid import uuid4

import pytest
import pytest_asyncio

from tests.support.gateway import Gateway
from tests.support.threads import Message, Thread, new_thread, talk

pytestmark = pytest.mark.asyncio(loop_scope="module")

OLD: list[Message] = [
    {"type": "human", "id": "ask", "content": "Which port does the zebra_gateway use?"},
    {"type": "ai", "id": "answer", "content": "The zebra_gateway uses port 40213. 会议记录在这里。"},
    {"type": "ai", "id": "fine", "content": "Fine."},
]
NEW: list[Message] = [
    {"type": "human", "id": "later", "content": "Is the zebra_gateway still up?"},
    {"type": "ai", "id": "last", "content": "It is."},
]


@pytest_asyncio.fixture(loop_scope="module")
async def thread(shared_gateway: Gateway) -> AsyncIterator[Thread]:
    """Two thirds of it are archived."""
    async with new_thread(shared_gateway, [*OLD, *talk(12), *NEW]) as made:
        done = await made.compacted(keep={"type": "messages", "value": 2})
        assert done["compacted"]
        yield made


async def search(thread: Thread, q: str, **parameters: Any) -> list[dict[str, Any]]:
    response = await thread.http.get(f"/threads/{thread.id}/messages/search", params={"q": q, **parameters})
    assert response.status_code == 200, response.text
    assert response.json()["complete"] is True
    return response.json()["data"]  # type: ignore[no-any-return]


async def test_archived_and_live_messages_are_found_at_their_place(thread: Thread) -> None:
    found = {each["message_id"]: each for each in await search(thread, "zebra_gateway")}
    assert set(found) == {"ask", "answer", "later"}
    assert {name: each["archived"] for name, each in found.items()} == {
        "ask": True,
        "answer": True,
        "later": False,
    }
    assert {name: each["seq"] for name, each in found.items()} == {"ask": 1, "answer": 2, "later": 28}
    assert found["answer"]["message"]["content"] == OLD[1]["content"]
    assert found["later"]["message"]["type"] == "human"
    assert "zebra_gateway" in found["ask"]["snippet"]
    assert all(each["score"] > 0 for each in found.values())


async def test_the_seq_is_the_one_of_the_page_of_messages(thread: Thread) -> None:
    page = (await thread.http.get(f"/threads/{thread.id}/messages?include_hidden=true")).json()["data"]
    places = {entry["message"]["id"]: entry["seq"] for entry in page}
    for each in await search(thread, "zebra_gateway"):
        assert places[each["message_id"]] == each["seq"]


async def test_the_best_come_first_and_no_more_than_asked_for(thread: Thread) -> None:
    found = await search(thread, "zebra_gateway port 40213", limit=1)
    assert [each["message_id"] for each in found] == ["answer"]
    scores = [each["score"] for each in await search(thread, "zebra_gateway port 40213")]
    assert scores == sorted(scores, reverse=True)


@pytest.mark.parametrize(
    "q", ["会议记录", "会议", "40213", "zebra", "ebra_gatew", "ZEBRA_GATEWAY", "zebra_gatewya"]
)
async def test_every_script_pieces_and_misspellings_find_it(thread: Thread, q: str) -> None:
    assert "answer" in [each["message_id"] for each in await search(thread, q)]


@pytest.mark.parametrize(
    "q", ["%", "_", "%%_%", "''", "\\", "a\0b", "'; SELECT 1 --", "zebra & | ! ( :* <->", "x" * 1000]
)
async def test_marks_of_sql_and_odd_characters_do_no_harm(thread: Thread, q: str) -> None:
    response = await thread.http.get(f"/threads/{thread.id}/messages/search", params={"q": q})
    assert response.status_code in (200, 422)


@pytest.mark.parametrize(
    ("parameters", "named"),
    [
        ({}, "q"),
        ({"q": ""}, "q"),
        ({"q": "   "}, "q"),
        ({"q": "?!…"}, "q"),
        ({"q": "x" * 10_000}, "q"),
        ({"q": "a", "limit": 0}, "limit"),
        ({"q": "a", "limit": 51}, "limit"),
        ({"q": "a", "limit": "many"}, "limit"),
    ],
)
async def test_what_cannot_be_searched_for_is_refused_by_name(
    thread: Thread, parameters: dict[str, Any], named: str
) -> None:
    response = await thread.http.get(f"/threads/{thread.id}/messages/search", params=parameters)
    assert response.status_code == 422
    assert response.json()["detail"].startswith(f"query.{named}: ")


async def test_an_unknown_thread_is_not_found(thread: Thread) -> None:
    response = await thread.http.get(f"/threads/{uuid4()}/messages/search", params={"q": "zebra"})
    assert response.status_code == 404


async def test_other_threads_are_not_found(shared_gateway: Gateway, thread: Thread) -> None:
    async with new_thread(shared_gateway, talk(3)) as other:
        assert await search(other, "zebra_gateway") == []


async def test_a_thread_without_any_message_has_no_results(shared_gateway: Gateway) -> None:
    async with new_thread(shared_gateway) as empty:
        assert await search(empty, "zebra") == []


async def test_an_undone_compaction_leaves_each_message_once(thread: Thread) -> None:
    compaction = (await thread.records())[0]["compaction_id"]
    response = await thread.http.post(f"/threads/{thread.id}/compactions/{compaction}/undo")
    assert response.status_code == 200, response.text
    found = {each["message_id"]: each["archived"] for each in await search(thread, "zebra_gateway")}
    assert found == {"ask": False, "answer": False, "later": False}


async def test_a_fork_from_before_finds_what_it_holds(thread: Thread) -> None:
    states = (await thread.http.post(f"/threads/{thread.id}/history", json={"limit": 10})).json()
    before = next(s for s in states if len(s["values"].get("messages", [])) > 2)
    checkpoint = before["checkpoint"]["checkpoint_id"]
    fork = [{"type": "human", "id": "fork", "content": "the zebra_gateway on another way"}]
    await thread.client.threads.update_state(thread.id, {"messages": fork}, checkpoint_id=checkpoint)
    found = {each["message_id"]: each["archived"] for each in await search(thread, "zebra_gateway")}
    assert found == {"ask": False, "answer": False, "later": False, "fork": False}
