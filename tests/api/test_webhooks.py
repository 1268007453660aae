"""Webhooks of runs, to a real receiver: down, failing, slow, elsewhere, and after a kill."""

from __future__ import annotations

import asyncio
import hashlib
import hmac
import socket
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import httpx
import pytest
from langgraph_sdk.errors import UnprocessableEntityError

from app.persistence.webhooks import WebhookStore
from tests.support.gateway import Gateway, serving
from tests.support.receiver import Receiver, receiving
from tests.support.service import FAST_RUNS, running

HELLO = {"messages": [{"role": "user", "content": "hello there"}]}
SECRET = "0123456789abcdef-secret"
WAIT_S = 20
HOOKS = {"allowed_hosts": ["127.0.0.1"], "attempts": 4, "backoff_s": 0.1, "timeout_s": 1.0}


@pytest.fixture
async def receiver() -> AsyncIterator[Receiver]:
    async with receiving() as served:
        yield served


@pytest.fixture
async def hooked(tmp_path: Path, database_url: str) -> AsyncIterator[Gateway]:
    hooks = {**HOOKS, "secret": "$HOOK_SECRET"}
    environ = {"HOOK_SECRET": SECRET}
    async with serving(tmp_path, database_url, {"webhooks": hooks}, environ=environ) as gateway:
        yield gateway


async def record(gateway: Gateway, thread_id: str, run_id: str, status: str) -> dict[str, Any]:
    """The record of the run's delivery, as soon as it has this status."""
    store = WebhookStore(gateway.core.database.pool)
    async with asyncio.timeout(WAIT_S):
        while True:
            found = await store.of_run(thread_id, run_id)
            if found and found[0]["status"] == status:
                return dict(found[0])
            await asyncio.sleep(0.05)


async def finished(gateway: Gateway, url: str, text: str = "hello there") -> tuple[str, str]:
    """Thread and run of a run with a webhook that is over."""
    client = gateway.client()
    thread_id = (await client.threads.create())["thread_id"]
    run = await client.runs.create(
        thread_id, "agent", input={"messages": [{"role": "user", "content": text}]}, webhook=url
    )
    await client.runs.join(thread_id, run["run_id"])
    return thread_id, run["run_id"]


async def test_the_receiver_is_told_of_the_run_its_values_and_by_whom(
    hooked: Gateway, receiver: Receiver
) -> None:
    thread_id, run_id = await finished(hooked, receiver.url)
    (request,) = await receiver.got(1)
    body = request.body
    assert (body["run_id"], body["thread_id"], body["status"], body["error"]) == (
        run_id,
        thread_id,
        "success",
        None,
    )
    assert [message["type"] for message in body["values"]["messages"]] == ["human", "ai"]
    assert body["kwargs"]["webhook"] == receiver.url
    assert "owner" not in body["kwargs"]
    assert body["run_started_at"] <= body["run_ended_at"] <= body["webhook_sent_at"]
    assert request.path == "/hook?of=run"
    signed = f"{request.headers['x-threadkeep-timestamp']}.".encode() + request.raw
    expected = hmac.new(SECRET.encode(), signed, hashlib.sha256).hexdigest()
    assert request.headers["x-threadkeep-signature"] == f"sha256={expected}"
    kept = await record(hooked, thread_id, run_id, "delivered")
    assert (kept["attempts"], kept["last_status"]) == (1, 200)
    assert str(kept["delivery_id"]) == request.headers["x-threadkeep-delivery"]


async def test_a_failed_run_tells_its_error(hooked: Gateway, receiver: Receiver) -> None:
    await finished(hooked, receiver.url, "/error the model is on fire")
    (request,) = await receiver.got(1)
    assert request.body["status"] == "error"
    assert "the model is on fire" in request.body["error"]["message"]


async def test_a_receiver_that_fails_or_is_slow_is_asked_again_under_the_same_id(
    hooked: Gateway, receiver: Receiver
) -> None:
    receiver.answers = [500, 3.0, 200]
    thread_id, run_id = await finished(hooked, receiver.url)
    requests = await receiver.got(3)
    assert len({request.headers["x-threadkeep-delivery"] for request in requests}) == 1
    assert [request.headers["x-threadkeep-attempt"] for request in requests] == ["1", "2", "3"]
    assert (await record(hooked, thread_id, run_id, "delivered"))["attempts"] == 3


async def test_a_receiver_that_is_down_is_told_when_it_is_back(hooked: Gateway) -> None:
    with socket.create_server(("127.0.0.1", 0)) as bound:
        port = bound.getsockname()[1]
    thread_id, run_id = await finished(hooked, f"http://127.0.0.1:{port}/")
    async with receiving(port) as back:
        await back.got(1)
        assert (await record(hooked, thread_id, run_id, "delivered"))["attempts"] > 1


async def test_a_receiver_that_never_answers_well_is_given_up(hooked: Gateway, receiver: Receiver) -> None:
    receiver.answers = [503] * 9
    thread_id, run_id = await finished(hooked, receiver.url)
    kept = await record(hooked, thread_id, run_id, "failed")
    assert (kept["attempts"], kept["last_status"]) == (HOOKS["attempts"], 503)
    assert len(receiver.received) == HOOKS["attempts"]


async def test_a_redirect_is_not_followed(hooked: Gateway, receiver: Receiver) -> None:
    async with receiving() as elsewhere:
        receiver.answers, receiver.location = [307] * 9, elsewhere.url
        thread_id, run_id = await finished(hooked, receiver.url)
        await record(hooked, thread_id, run_id, "failed")
        assert elsewhere.received == []


async def test_a_stateless_run_and_a_deleted_thread(hooked: Gateway, receiver: Receiver) -> None:
    client = hooked.client()
    values: Any = await client.runs.wait(None, "agent", input=HELLO, webhook=receiver.url)
    (request,) = await receiver.got(1)
    assert request.body["values"]["messages"] == values["messages"]
    receiver.answers = [500] * 9
    thread_id, run_id = await finished(hooked, receiver.url)
    await client.threads.delete(thread_id)
    assert await WebhookStore(hooked.core.database.pool).of_run(thread_id, run_id) == []


async def test_a_cancelled_run_that_never_began_tells_that(hooked: Gateway, receiver: Receiver) -> None:
    client = hooked.client()
    thread_id = (await client.threads.create())["thread_id"]
    run = await client.runs.create(thread_id, "agent", input=HELLO, webhook=receiver.url, after_seconds=3600)
    await client.runs.cancel(thread_id, run["run_id"])
    (request,) = await receiver.got(1)
    assert (request.body["status"], request.body["values"]) == ("interrupted", None)


async def test_a_run_that_was_taken_back_tells_that_it_was_stopped(
    hooked: Gateway, receiver: Receiver
) -> None:
    client = hooked.client()
    thread_id = (await client.threads.create())["thread_id"]
    slow: Any = {"messages": [{"role": "user", "content": "/slow 400"}]}
    run = await client.runs.create(
        thread_id, "agent", input=slow, webhook=receiver.url, stream_mode="messages-tuple"
    )
    async for part in client.runs.join_stream(thread_id, run["run_id"]):
        if part.event == "messages":
            break
    await client.runs.cancel(thread_id, run["run_id"], action="rollback")
    (request,) = await receiver.got(1)
    assert (request.body["run_id"], request.body["status"]) == (run["run_id"], "interrupted")
    assert request.body["run_ended_at"] is not None


async def test_nobody_may_be_notified_unless_the_configuration_says_so(
    gateway: Gateway, receiver: Receiver
) -> None:
    client = gateway.client()
    thread_id = (await client.threads.create())["thread_id"]
    with pytest.raises(UnprocessableEntityError) as caught:
        await client.runs.create(thread_id, "agent", input=HELLO, webhook=receiver.url)
    detail = caught.value.response.json()["detail"]
    assert detail.startswith("webhook:") and "webhooks.allowed_hosts" in detail
    assert await client.runs.list(thread_id) == []


async def test_what_is_owed_survives_a_kill(tmp_path: Path, database_url: str, receiver: Receiver) -> None:
    settings = {"webhooks": {**HOOKS, "timeout_s": 30.0}, "runs": FAST_RUNS}
    receiver.answers = [600.0]
    first, second = tmp_path / "first", tmp_path / "second"
    first.mkdir()
    second.mkdir()
    async with running(first, settings, database_url=database_url) as process, process.client() as client:
        thread_id = (await client.threads.create())["thread_id"]
        await client.runs.create(thread_id, "agent", input=HELLO, webhook=receiver.url)
        await receiver.got(1)
        process.kill()
    async with serving(second, database_url, settings) as gateway:
        pool = gateway.core.database.pool
        async with pool.connection() as conn:
            # The dead process holds it for as long as a delivery may take.
            await conn.execute("UPDATE webhook_deliveries SET due_at = now()")
            await conn.execute("SELECT pg_notify('threadkeep_run_events', 'webhooks')")
        requests = await receiver.got(2)
    assert len({request.headers["x-threadkeep-delivery"] for request in requests}) == 1
    assert requests[1].body["values"] == requests[0].body["values"]


async def test_a_url_that_is_none_names_the_field(hooked: Gateway) -> None:
    async with hooked.http() as http:
        thread_id = (await http.post("/threads", json={})).json()["thread_id"]
        for url in ("", "x", "/hook", "ftp://127.0.0.1/", "http://user:pw@127.0.0.1/", "https://", 7):
            response: httpx.Response = await http.post(
                f"/threads/{thread_id}/runs", json={"assistant_id": "agent", "input": HELLO, "webhook": url}
            )
            assert (response.status_code, "webhook" in response.json()["detail"]) == (422, True), url
