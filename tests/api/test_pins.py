"""Pinned messages: no compaction removes them, within their budget (rule C4)."""

from __future__ import annotations

import asyncio
from typing import Any
from urllib.parse import quote

import httpx
import pytest

from tests.support.answers import Fail, Hang, Reply
from tests.support.rig import SMALL, Rig, shared_rig
from tests.support.threads import SUMMARY, Message, Thread, new_thread, statuses, talk, tool_round

pytestmark = pytest.mark.asyncio(loop_scope="module")

BUDGET = 400
PINNING = {**SMALL, "pin_budget_tokens": BUDGET}
HISTORY = talk(12)


served = shared_rig("pins", PINNING, modes=("delta", "full"))


def path(thread: Thread, message_id: str) -> str:
    return f"/threads/{thread.id}/messages/{quote(message_id, safe='')}/pin"


async def pin(thread: Thread, message_id: str) -> httpx.Response:
    return await thread.http.put(path(thread, message_id))


async def pinned(thread: Thread, *message_ids: str) -> dict[str, Any]:
    for message_id in message_ids:
        response = await pin(thread, message_id)
        assert response.status_code == 200, response.text
    return response.json()  # type: ignore[no-any-return]


async def pins(thread: Thread) -> dict[str, Any]:
    return (await thread.http.get(f"/threads/{thread.id}/pins")).json()  # type: ignore[no-any-return]


def refused(response: httpx.Response, status: int, code: str, *parts: str) -> None:
    answer = response.json()
    assert (response.status_code, answer["code"]) == (status, code), answer
    for part in parts:
        assert part in answer["detail"]


async def test_a_pin_says_what_it_takes_and_is_set_once(rig: Rig) -> None:
    async with new_thread(rig.gateway, HISTORY) as thread:
        answer = await pinned(thread, "q3")
        assert answer == {
            "message_id": "q3",
            "pinned": True,
            "pinned_tokens": answer["pinned_tokens"],
            "pin_budget_tokens": BUDGET,
        }
        assert 0 < answer["pinned_tokens"] < BUDGET
        assert await pinned(thread, "q3") == answer
        report = await pins(thread)
        assert [(item["message_id"], item["live"], item["tokens"]) for item in report["data"]] == [
            ("q3", True, answer["pinned_tokens"])
        ]
        assert report["pinned_tokens"] == answer["pinned_tokens"]
        for _ in range(2):
            response = await thread.http.delete(path(thread, "q3"))
            assert (response.status_code, response.content) == (204, b"")
        assert await pins(thread) == {"data": [], "pinned_tokens": 0, "pin_budget_tokens": BUDGET}
        assert (await thread.compacted())["compacted"]
        assert "q3" not in await thread.ids()


async def test_a_compaction_by_hand_keeps_pins_in_their_place(rig: Rig) -> None:
    async with new_thread(rig.gateway, HISTORY) as thread:
        await pinned(thread, "a2", "q5")
        await thread.compacted()
        assert await thread.ids() == ["a2", "q5", "q11", "a11"]
        await thread.put(talk(4, start=12))
        await thread.compacted()
        assert (await thread.ids())[:2] == ["a2", "q5"]


async def test_an_automatic_compaction_keeps_pins(rig: Rig) -> None:
    async with new_thread(rig.gateway, talk(30)) as thread:
        await pinned(thread, "a2")
        assert statuses(await thread.run("go on")) == ["started", "completed"]
        assert (await thread.ids())[0] == "a2"
        [call] = rig.agent_calls()
        assert "Answer 2: 2w000" in call.text


async def test_recovery_from_an_overflow_keeps_pins_even_without_a_model(rig: Rig) -> None:
    rig.summarizer(Fail(500))
    async with new_thread(rig.gateway, talk(8)) as thread:
        await pinned(thread, "a1")
        rig.provider.limit(1400)
        await thread.run("go on")
        rig.provider.limit(10**9)
        [record] = [record for record in await thread.records() if record["status"] == "committed"]
        assert (record["kind"], record["extractive"]) == ("overflow", True)
        assert "a1" in await thread.ids()
        assert "a2" not in await thread.ids()


async def test_what_pins_take_is_named_when_nothing_fits(rig: Rig) -> None:
    async with new_thread(rig.gateway, talk(6)) as thread:
        await pinned(thread, "a1")
        rig.provider.limit(1)
        parts = await thread.run("go on")
        [error] = [part.data for part in parts if part.event == "error"]
        assert "pinned messages " in str(error)
        assert "a1" in await thread.ids()


async def test_a_pair_is_pinned_as_a_whole(rig: Rig) -> None:
    history = [*tool_round(0, 400), *tool_round(1, 400), *HISTORY]
    async with new_thread(rig.gateway, history) as thread:
        result = await pinned(thread, "result-call-0-0")
        assert await pinned(thread, "t0") == {**result, "message_id": "t0"}
        assert await pinned(thread, "result-call-0-0") == result
        await thread.compacted()
        assert await thread.ids() == ["t0", "result-call-0-0", "q11", "a11"]


async def test_beyond_the_budget_a_pin_is_refused_with_the_numbers(rig: Rig) -> None:
    async with new_thread(rig.gateway, HISTORY) as thread:
        first = (await pinned(thread, "q0"))["pinned_tokens"]
        fitting = BUDGET // first
        both = (await pinned(thread, *(f"q{number}" for number in range(1, fitting))))["pinned_tokens"]
        response = await pin(thread, "q7")
        refused(response, 409, "pin_budget_exceeded", "'q7'", f"{both} without it", f"allows {BUDGET}")
        report = await pins(thread)
        assert (len(report["data"]), report["pinned_tokens"]) == (fitting, both)
        await thread.http.delete(path(thread, "q0"))
        assert (await pin(thread, "q7")).status_code == 200
        await thread.compacted()
        assert [m for m in await thread.ids() if m in ("q0", "q7")] == ["q7"]


async def test_the_newest_request_of_the_user_counts_though_it_stays_anyway(rig: Rig) -> None:
    long: Message = {"type": "human", "id": "long", "content": "word " * 2000}
    async with new_thread(rig.gateway, [*talk(2), long]) as thread:
        refused(await pin(thread, "long"), 409, "pin_budget_exceeded")


async def test_only_what_the_model_still_sees_can_be_pinned(rig: Rig) -> None:
    async with new_thread(rig.gateway, HISTORY) as thread:
        refused(await pin(thread, "nobody"), 404, "not_found", "nobody")
        await thread.compacted()
        refused(await pin(thread, "q0"), 409, "message_archived", "q0", "summary")
        assert (await pins(thread))["data"] == []
        assert (await thread.http.delete(path(thread, "nobody"))).status_code == 204


async def test_a_pin_of_a_message_that_a_client_removes_is_moot_until_it_is_back(rig: Rig) -> None:
    async with new_thread(rig.gateway, HISTORY) as thread:
        await pinned(thread, "q0")
        await thread.put([{"type": "remove", "id": "q0"}])
        report = await pins(thread)
        assert [(p["live"], p["tokens"]) for p in report["data"]] == [(False, 0)]
        assert report["pinned_tokens"] == 0
        await thread.put([HISTORY[0]])
        assert [p["live"] for p in (await pins(thread))["data"]] == [True]


async def test_pins_hold_on_a_branch_too(rig: Rig) -> None:
    async with new_thread(rig.gateway, HISTORY) as thread:
        fork = (await thread.state())["checkpoint"]
        await pinned(thread, "q1")
        await thread.put(talk(2, start=12))
        await thread.client.threads.update_state(thread.id, {"messages": talk(1, start=20)}, checkpoint=fork)
        assert "q12" not in await thread.ids()
        await thread.compacted()
        assert (await thread.ids())[0] == "q1"


async def test_any_id_can_be_pinned(rig: Rig) -> None:
    names = ["a/b", "a/pin", "50%?#&", "…日本", "x" * 256]
    history = [{"type": "human", "id": name, "content": "hello"} for name in names]
    async with new_thread(rig.gateway, [*history, *HISTORY]) as thread:
        await pinned(thread, *names)
        assert [p["message_id"] for p in (await pins(thread))["data"]] == names
        await thread.compacted()
        assert (await thread.ids())[: len(names)] == names
        assert (await thread.http.delete(path(thread, "a/b"))).status_code == 204
        refused(await pin(thread, "x" * 257), 422, "invalid_request")
        refused(await pin(thread, "a\0b"), 422, "invalid_request")


async def test_pins_belong_to_their_thread_and_go_with_it(rig: Rig) -> None:
    async with new_thread(rig.gateway, HISTORY) as thread, new_thread(rig.gateway, HISTORY) as other:
        await pinned(thread, "q1")
        assert (await pins(other))["data"] == []
        await thread.client.threads.delete(thread.id)
        for method, where in (("PUT", path(thread, "q1")), ("DELETE", path(thread, "q1"))):
            refused(await thread.http.request(method, where), 404, "not_found", thread.id)
        refused(await thread.http.get(f"/threads/{thread.id}/pins"), 404, "not_found")


async def test_pinning_waits_for_no_run_and_holds_none_up(rig: Rig) -> None:
    rig.agent(Hang(then=Reply("done")))
    async with new_thread(rig.gateway, talk(4)) as thread:
        run = await thread.client.runs.create(
            thread.id, "agent", input={"messages": [{"role": "user", "content": "go"}]}
        )
        await rig.provider.asked(len(rig.provider.chats) + 1 - len(rig.agent_calls()))
        await pinned(thread, "q0")
        rig.provider.release()
        await thread.client.runs.join(thread.id, run["run_id"])
        assert (await thread.messages())[-1]["content"] == "done"


async def test_what_is_pinned_while_a_summary_is_written_is_not_removed(rig: Rig) -> None:
    rig.summarizer(Hang(then=Reply(SUMMARY)))
    async with new_thread(rig.gateway, HISTORY) as thread:
        before = await thread.state()
        compaction = asyncio.create_task(thread.compact())
        await rig.provider.asked(len(rig.provider.chats) + 1 - len(rig.summary_calls()))
        await pinned(thread, "q0")
        rig.provider.release()
        refused(await compaction, 409, "message_pinned", "q0", "nothing was changed")
        assert await thread.state() == before
        [record] = await thread.records()
        assert (record["status"], record["reason"]) == ("failed", "message_pinned")
        rig.reset()
        assert (await thread.compacted())["compacted"]
        assert (await thread.ids())[0] == "q0"


async def test_pins_that_are_set_at_once_stay_within_the_budget_together(rig: Rig) -> None:
    async with new_thread(rig.gateway, HISTORY) as thread:
        one = (await pinned(thread, "q0"))["pinned_tokens"]
        answers = await asyncio.gather(*(pin(thread, f"q{number}") for number in range(1, 9)))
        report = await pins(thread)
        assert report["pinned_tokens"] <= BUDGET < report["pinned_tokens"] + one
        assert len(report["data"]) - 1 == [answer.status_code for answer in answers].count(200)
        assert {answer.status_code for answer in answers} == {200, 409}


async def test_a_pin_and_a_compaction_at_once_agree(rig: Rig) -> None:
    async with new_thread(rig.gateway, HISTORY) as thread:
        answer, compaction = await asyncio.gather(pin(thread, "q1"), thread.compact())
        is_live = "q1" in await thread.ids()
        assert (answer.status_code == 200) == is_live
        assert compaction.status_code == 200 or compaction.json()["code"] == "message_pinned"
        assert [p["message_id"] for p in (await pins(thread))["data"]] == (["q1"] if is_live else [])
