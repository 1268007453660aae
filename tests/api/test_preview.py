"""``POST /compact`` with ``dry_run: "plan"``: what would be done, without a model and without a write."""

from __future__ import annotations

import uuid
from pathlib import Path
from typing import Any

import pytest
from psycopg import AsyncConnection

from app.persistence.database import connect
from tests.support.answers import Hang, Reply
from tests.support.rig import SMALL, Rig, rigged, shared_rig
from tests.support.threads import Thread, new_thread, talk, tool_round

pytestmark = pytest.mark.asyncio(loop_scope="module")

HISTORY = talk(12)
# Far from firing by itself, and with room for all that is to be kept.
ROOMY = {**SMALL, "trigger": {"type": "tokens", "value": 9000}}
MIXED = [*tool_round(0, 400, calls=2), *talk(3), *tool_round(1, 2000), *talk(4, start=3), *tool_round(2, 900)]
_WRITTEN = """
SELECT (SELECT count(*) FROM checkpoints) AS checkpoints, (SELECT count(*) FROM checkpoint_writes) AS writes,
    (SELECT count(*) FROM compactions) AS records, (SELECT count(*) FROM archived_messages) AS archived,
    (SELECT count(*) FROM compaction_drafts) AS drafts, (SELECT max(xmin::text::bigint) FROM threads) AS threads
"""


served = shared_rig("preview", ROOMY)


async def plan(thread: Thread, **body: Any) -> dict[str, Any]:
    return await thread.compacted(dry_run="plan", **body)


def ids(verdicts: list[dict[str, str]]) -> list[str]:
    return [verdict["message_id"] for verdict in verdicts]


async def written(database: AsyncConnection[Any]) -> Any:
    return await (await database.execute(_WRITTEN)).fetchone()


async def test_a_plan_says_of_every_message_what_becomes_of_it_and_why(rig: Rig) -> None:
    async with new_thread(rig.gateway, HISTORY) as thread:
        found = await plan(thread)
        assert set(found) == {
            *("thread_id", "dry_run", "would_compact", "reason"),
            *("tokens_before", "tokens_after_estimate", "remove", "keep"),
        }
        assert (found["dry_run"], found["would_compact"], found["reason"]) == ("plan", True, None)
        assert found["tokens_before"] == (await thread.context())["tokens"]["total"]
        assert found["tokens_after_estimate"] < found["tokens_before"]
        assert found["keep"] == [
            {"message_id": "q10", "why": "tail"},
            {"message_id": "a10", "why": "tail"},
            {"message_id": "q11", "why": "newest_user_message"},
            {"message_id": "a11", "why": "tail"},
        ]
        assert ids(found["remove"]) == [message["id"] for message in HISTORY[:-4]]
        assert {verdict["why"] for verdict in found["remove"]} == {"older_than_keep"}


async def test_a_plan_asks_no_model_and_writes_nothing(rig: Rig) -> None:
    async with new_thread(rig.gateway, HISTORY) as thread, await connect(rig.url) as database:
        await thread.http.put(f"/threads/{thread.id}/messages/q1/pin")
        before = await written(database)
        for body in ({}, {"force": False}, {"keep": {"type": "messages", "value": 200}}):
            await plan(thread, **body)
        assert await written(database) == before
        assert rig.summary_calls() == []


@pytest.mark.parametrize("keep", [None, {"type": "messages", "value": 6}, {"type": "tokens", "value": 900}])
@pytest.mark.parametrize("pinned", [(), ("q0", "result-call-1-0")])
async def test_the_compaction_does_what_the_plan_said(rig: Rig, keep: Any, pinned: tuple[str, ...]) -> None:
    async with new_thread(rig.gateway, MIXED) as thread:
        for message_id in pinned:
            assert (
                await thread.http.put(f"/threads/{thread.id}/messages/{message_id}/pin")
            ).status_code == 200
        body = {"keep": keep} if keep else {}
        found = await plan(thread, **body)
        done = await thread.compacted(**body)
        assert done["compacted"]
        assert await thread.ids() == ids(found["keep"])
        record = await thread.record(done["compaction_id"])
        assert [message["id"] for message in record["removed_messages"]] == ids(found["remove"])
        assert done["total_tokens"] == found["tokens_before"]
        assert done["tokens_after"] <= found["tokens_after_estimate"]
        whys = {verdict["message_id"]: verdict["why"] for verdict in found["keep"]}
        assert all(whys[message_id] == "pinned" for message_id in pinned)
        again = await plan(thread, **body)
        assert (again["would_compact"], again["reason"]) == (False, "nothing_to_remove")
        assert (await thread.compacted(**body))["reason"] == "nothing_to_remove"


async def test_where_nothing_would_be_done_the_plan_says_why_and_keeps_all(rig: Rig) -> None:
    async with new_thread(rig.gateway, talk(3)) as thread:
        found = await plan(thread, force=False)
        assert (found["would_compact"], found["reason"], found["remove"]) == (False, "below_threshold", [])
        assert ids(found["keep"]) == [message["id"] for message in talk(3)]
        assert found["tokens_after_estimate"] == found["tokens_before"]
    async with new_thread(rig.gateway) as empty:
        found = await plan(empty)
        assert (found["would_compact"], found["reason"]) == (False, "not_enough_messages")
        assert (found["remove"], found["keep"]) == ([], [])


async def test_a_plan_is_made_while_a_run_is_running(rig: Rig) -> None:
    rig.agent(Hang(then=Reply("done")))
    async with new_thread(rig.gateway, HISTORY) as thread:
        run = await thread.client.runs.create(
            thread.id, "agent", input={"messages": [{"role": "user", "content": "go"}]}
        )
        await rig.provider.asked(len(rig.provider.chats) + 1 - len(rig.agent_calls()))
        found = await plan(thread)
        assert found["would_compact"]
        assert found["keep"][-1]["why"] == "newest_user_message"
        rig.provider.release()
        await thread.client.runs.join(thread.id, run["run_id"])


async def test_a_dry_run_is_refused_like_the_compaction_itself(rig: Rig) -> None:
    async with new_thread(rig.gateway, HISTORY) as thread:
        for wrong in ("maybe", True, "", 1):
            response = await thread.compact(dry_run=wrong)
            assert (response.status_code, response.json()["code"]) == (422, "invalid_request")
            assert "dry_run" in response.json()["detail"]
        for kind in ("plan", "summary"):
            response = await thread.compact(dry_run=kind, model_name="gpt-none")
            assert response.status_code == 422
            response = await thread.http.post(f"/threads/{uuid.uuid4()}/compact", json={"dry_run": kind})
            assert response.status_code == 404
        assert await thread.records() == []


async def test_where_compaction_is_switched_off_nothing_is_foreseen(
    tmp_path: Path, database_template: str
) -> None:
    async with (
        rigged(tmp_path, database_template, {**ROOMY, "enabled": False}) as rig,
        new_thread(rig.gateway, HISTORY) as thread,
    ):
        for kind in ("plan", "summary"):
            response = await thread.compact(dry_run=kind)
            assert (response.status_code, response.json()["code"]) == (409, "compaction_disabled")
