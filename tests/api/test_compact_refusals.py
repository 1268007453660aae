"""``POST /compact`` where it is refused: what the answer says, and that nothing happened (section I)."""

from __future__ import annotations

import uuid
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.support.answers import Hang, Reply
from tests.support.rig import SMALL, Rig, rigged, shared_rig
from tests.support.threads import new_thread, statuses, talk

pytestmark = pytest.mark.asyncio(loop_scope="module")

HISTORY = talk(12)


served = shared_rig("refusals", SMALL)


def refused(response: httpx.Response, status: int, code: str, *parts: str) -> None:
    answer = response.json()
    assert (response.status_code, answer["code"]) == (status, code), answer
    assert set(answer) == {"detail", "code"}
    for part in parts:
        assert part in answer["detail"]


BODIES: list[tuple[Any, tuple[str, ...]]] = [
    ({"force": "yes"}, ("force",)),
    ({"force": 1}, ("force",)),
    ({"forse": True}, ("forse",)),
    ({"keep": 5}, ("keep",)),
    ({"keep": []}, ("keep",)),
    ({"keep": {"type": "messages"}}, ("keep.value",)),
    ({"keep": {"value": 5}}, ("keep.type",)),
    ({"keep": {"type": "weeks", "value": 5}}, ("keep.type", "weeks")),
    ({"keep": {"type": "messages", "value": 5, "unit": "x"}}, ("keep", "unit")),
    ({"keep": {"type": "messages", "value": 0}}, ("keep.value", "0")),
    ({"keep": {"type": "messages", "value": -3}}, ("keep.value", "-3")),
    ({"keep": {"type": "messages", "value": 2.5}}, ("keep.value", "2.5")),
    ({"keep": {"type": "messages", "value": True}}, ("keep.value", "true")),
    ({"keep": {"type": "messages", "value": "5"}}, ("keep.value", "5")),
    ({"keep": {"type": "messages", "value": None}}, ("keep.value",)),
    ({"keep": {"type": "tokens", "value": 0}}, ("keep.value", "0")),
    ({"keep": {"type": "tokens", "value": -1.5}}, ("keep.value", "-1.5")),
    ({"keep": {"type": "tokens", "value": "many"}}, ("keep.value", "many")),
    ({"keep": {"type": "fraction", "value": 0}}, ("keep.value", "0")),
    ({"keep": {"type": "fraction", "value": 80}}, ("keep.value", "did you mean 0.8")),
    ({"keep": {"type": "fraction", "value": 1.01}}, ("keep.value", "1.01")),
    ({"keep": {"type": "fraction", "value": False}}, ("keep.value", "false")),
    ({"model_name": "gpt-none"}, ("model_name", "gpt-none", "main")),
    ({"model_name": ""}, ("model_name",)),
    ({"model_name": 5}, ("model_name",)),
    ({"agent_name": "nobody"}, ("agent_name", "nobody", "agent")),
    ({"agent_name": str(uuid.UUID(int=9))}, ("agent_name",)),
    ({"agent_name": ""}, ("agent_name",)),
    ({"instructions": "x" * 4001}, ("instructions", "4000")),
    ({"instructions": ["x"]}, ("instructions",)),
    ({"instructions": "a\u0000b"}, ("instructions", "NUL")),
    ([], ("body",)),
    ("compact", ("body",)),
]


@pytest.mark.parametrize(("body", "parts"), BODIES, ids=lambda value: str(value)[:60])
async def test_a_wrong_body_is_422_and_names_the_field(rig: Rig, body: Any, parts: tuple[str, ...]) -> None:
    async with new_thread(rig.gateway, HISTORY) as thread:
        before = await thread.state()
        response = await thread.http.post(f"/threads/{thread.id}/compact", json=body)
        refused(response, 422, "invalid_request", *parts)
        assert await thread.state() == before
        assert await thread.records() == []
        assert rig.summary_calls() == []


@pytest.mark.parametrize(
    "raw", [b'{"force": tru', b"\xff\xfe", b'{"keep": {"type": "tokens", "value": 1e999}}']
)
async def test_what_is_no_json_is_422(rig: Rig, raw: bytes) -> None:
    async with new_thread(rig.gateway, HISTORY) as thread:
        response = await thread.http.post(
            f"/threads/{thread.id}/compact", content=raw, headers={"content-type": "application/json"}
        )
        refused(response, 422, "invalid_request")


@pytest.mark.parametrize("path", ["compact", "context", "compactions", f"compactions/{uuid.UUID(int=7)}"])
async def test_an_unknown_or_deleted_thread_is_404(rig: Rig, path: str) -> None:
    method = "POST" if path == "compact" else "GET"
    async with new_thread(rig.gateway, HISTORY) as thread:
        await thread.client.threads.delete(thread.id)
        for thread_id in (thread.id, str(uuid.uuid4())):
            response = await thread.http.request(method, f"/threads/{thread_id}/{path}")
            refused(response, 404, "not_found", thread_id)
        wrong = await thread.http.request(method, f"/threads/no-uuid/{path}")
        refused(wrong, 422, "invalid_request", "thread_id")


async def test_a_record_is_found_on_its_own_thread_only(rig: Rig) -> None:
    async with new_thread(rig.gateway, HISTORY) as thread, new_thread(rig.gateway) as other:
        record_id = (await thread.compacted())["compaction_id"]
        response = await other.http.get(f"/threads/{other.id}/compactions/{record_id}")
        refused(response, 404, "not_found", record_id)
        refused(await thread.http.get(f"/threads/{thread.id}/compactions/x"), 422, "invalid_request")
        for query in ({"limit": 0}, {"limit": 201}, {"limit": "x"}, {"before": "x"}):
            response = await thread.http.get(f"/threads/{thread.id}/compactions", params=query)
            refused(response, 422, "invalid_request", next(iter(query)))


async def test_a_thread_whose_metadata_names_no_graph_of_ours_compacts_with_the_default(rig: Rig) -> None:
    async with new_thread(rig.gateway, HISTORY) as thread:
        await thread.client.threads.update(thread.id, metadata={"graph_id": "gone"})
        assert (await thread.compacted())["compacted"]


async def test_compaction_that_is_switched_off_is_409(tmp_path: Path, database_template: str) -> None:
    summarization = {**SMALL, "enabled": False}
    async with (
        rigged(tmp_path, database_template, summarization) as rig,
        new_thread(rig.gateway, HISTORY) as thread,
    ):
        refused(await thread.compact(), 409, "compaction_disabled", "summarization.enabled")
        assert statuses(await thread.run()) == []
        assert await thread.records() == []
        unknown = await thread.http.post(f"/threads/{uuid.uuid4()}/compact")
        refused(unknown, 404, "not_found")


async def test_a_thread_with_a_running_run_is_busy(rig: Rig) -> None:
    rig.agent(Hang(then=Reply("done")))
    async with new_thread(rig.gateway, talk(4)) as thread:
        run = await thread.client.runs.create(
            thread.id, "agent", input={"messages": [{"role": "user", "content": "go"}]}
        )
        await rig.provider.asked(len(rig.provider.chats) + 1 - len(rig.agent_calls()))
        refused(await thread.compact(), 409, "thread_busy", thread.id)
        rig.provider.release()
        await thread.client.runs.join(thread.id, run["run_id"])
        assert (await thread.messages())[-1]["content"] == "done"
        assert (await thread.compacted())["compacted"]


async def test_a_thread_with_a_pending_run_is_busy(rig: Rig) -> None:
    async with new_thread(rig.gateway, HISTORY) as thread:
        run = await thread.client.runs.create(
            thread.id,
            "agent",
            input={"messages": [{"role": "user", "content": "go"}]},
            after_seconds=600,
        )
        assert run["status"] == "pending"
        refused(await thread.compact(), 409, "thread_busy")
        await thread.client.runs.cancel(thread.id, run["run_id"], wait=True)
        assert (await thread.compacted())["compacted"]


async def test_a_paused_thread_keeps_its_question(rig: Rig) -> None:
    call = rig.provider.call("list_files", {})
    rig.agent(
        lambda request: (
            Reply("done") if request.messages[-1]["role"] == "tool" else Reply(None, tool_calls=(call,))
        )
    )
    async with new_thread(rig.gateway, talk(6)) as thread:
        await thread.run(interrupt_before=["tools"])
        before = await thread.state()
        assert before["next"] == ["tools"]
        refused(await thread.compact(), 409, "thread_interrupted", "paused")
        assert await thread.state() == before
        await thread.client.runs.wait(thread.id, "agent", input=None)
        assert (await thread.messages())[-1]["content"] == "done"
        assert (await thread.compacted())["compacted"]


async def test_what_a_cancelled_run_left_unfinished_is_no_question(rig: Rig) -> None:
    rig.agent(Hang())
    async with new_thread(rig.gateway, talk(6)) as thread:
        run = await thread.client.runs.create(
            thread.id, "agent", input={"messages": [{"role": "user", "content": "go"}]}
        )
        await rig.provider.asked(len(rig.provider.chats) + 1 - len(rig.agent_calls()))
        await thread.client.runs.cancel(thread.id, run["run_id"], wait=True)
        assert (await thread.state())["next"] == ["model"]
        assert (await thread.compacted())["compacted"]
        assert (await thread.messages())[-1]["content"] == "go"


async def test_a_state_written_after_a_run_leaves_no_question(rig: Rig) -> None:
    async with new_thread(rig.gateway, talk(4)) as thread:
        await thread.run()
        await thread.put(talk(8, start=4))
        assert (await thread.compacted())["compacted"]
