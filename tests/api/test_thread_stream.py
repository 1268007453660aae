"""A thread followed across its runs, with the official client."""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.support.gateway import Gateway, serving
from tests.support.threads import talk

HELLO = {"messages": [{"role": "user", "content": "hello there"}]}
SLOW = {"messages": [{"role": "user", "content": "/slow 20"}]}
VERY_SLOW = {"messages": [{"role": "user", "content": "/slow 400"}]}
WAIT_S = 15


async def until(stream: Awaitable[AsyncIterator[Any]], done: Callable[[list[Any]], bool]) -> list[Any]:
    """Read parts until ``done`` says so of all that were read."""
    read: list[Any] = []
    async with asyncio.timeout(WAIT_S):
        async for part in await stream:
            read.append(part)
            if done(read):
                return read
    raise AssertionError(f"the stream ended after {read}")


def runs_done(count: int) -> Callable[[list[Any]], bool]:
    return lambda read: sum(is_done(part) for part in read) >= count


def as_many_as(expected: list[Any]) -> Callable[[list[Any]], bool]:
    return lambda read: len(read) == len(expected)


def is_done(part: Any) -> bool:
    return part.event == "metadata" and part.data.get("status") == "run_done"


def place(part: Any) -> tuple[int, int]:
    position, _, seq = part.id.partition("-")
    return int(position), int(seq)


async def test_runs_follow_each_other_in_one_stream_under_rising_ids(gateway: Gateway) -> None:
    client = gateway.client()
    thread_id = (await client.threads.create())["thread_id"]
    reading = asyncio.create_task(
        until(client.threads.join_stream(thread_id, last_event_id="-1"), runs_done(2))
    )
    runs = [
        await client.runs.create(thread_id, "agent", input=HELLO, stream_mode="updates") for _ in range(2)
    ]
    parts = await reading
    begun = [part.data["run_id"] for part in parts if part.event == "metadata" and "attempt" in part.data]
    done = [part.data["run_id"] for part in parts if is_done(part)]
    assert begun == done == [run["run_id"] for run in runs]
    assert {part.event for part in parts} == {"metadata", "updates"}
    places = [place(part) for part in parts]
    assert places == sorted(set(places))


async def test_a_client_that_comes_back_misses_nothing_and_sees_nothing_twice(
    gateway: Gateway, tmp_path: Path, database_url: str
) -> None:
    client = gateway.client()
    thread_id = (await client.threads.create())["thread_id"]
    for _ in range(3):
        await client.runs.wait(thread_id, "agent", input=HELLO)
    whole = await until(client.threads.join_stream(thread_id, last_event_id="-1"), runs_done(3))
    folder = tmp_path / "replica"
    folder.mkdir()
    async with serving(folder, database_url) as replica:
        elsewhere = replica.client()
        for seen in range(0, len(whole) - 1, 3):
            expected = whole[seen + 1 :]
            rest = await until(
                elsewhere.threads.join_stream(thread_id, last_event_id=whole[seen].id), as_many_as(expected)
            )
            assert rest == expected


async def test_without_a_last_id_it_begins_with_the_run_that_is_under_way(gateway: Gateway) -> None:
    client = gateway.client()
    thread_id = (await client.threads.create())["thread_id"]
    await client.runs.wait(thread_id, "agent", input=HELLO)
    run = await client.runs.create(thread_id, "agent", input=VERY_SLOW, stream_mode="messages-tuple")
    async for part in client.runs.join_stream(thread_id, run["run_id"]):
        if part.event == "messages":
            break
    parts = await until(client.threads.join_stream(thread_id), lambda read: len(read) == 3)
    assert parts[0].data == {"run_id": run["run_id"], "attempt": 1}
    await client.runs.cancel(thread_id, run["run_id"])


async def test_lifecycle_is_only_where_runs_begin_and_end(gateway: Gateway) -> None:
    client = gateway.client()
    thread_id = (await client.threads.create())["thread_id"]
    for text in ("hello", "/error boom"):
        run = await client.runs.create(
            thread_id, "agent", input={"messages": [{"role": "user", "content": text}]}
        )
        await client.runs.join(thread_id, run["run_id"])
    stream = client.threads.join_stream(thread_id, last_event_id="-1", stream_mode="lifecycle")
    parts = await until(stream, runs_done(2))
    assert [(part.event, "attempt" in part.data) for part in parts] == [
        ("metadata", True),
        ("metadata", False),
    ] * 2


async def test_a_write_to_the_state_is_told_to_those_who_asked(gateway: Gateway) -> None:
    client = gateway.client()
    thread_id = (await client.threads.create())["thread_id"]
    await client.runs.wait(thread_id, "agent", input=HELLO)
    modes: Any = ["state_update", "lifecycle"]
    reading = asyncio.create_task(
        until(client.threads.join_stream(thread_id, stream_mode=modes), lambda read: len(read) == 3)
    )
    await asyncio.sleep(0.2)
    await client.threads.update_state(thread_id, {"title": "A name"})
    await client.runs.wait(thread_id, "agent", input=HELLO)
    update, begun, done = await reading
    assert (update.event, update.data["thread_id"]) == ("state_update", thread_id)
    assert update.data["state"]["values"]["title"] == "A name"
    assert ("attempt" in begun.data, is_done(done)) == (True, True)
    alone = client.threads.join_stream(thread_id, stream_mode="state_update", last_event_id="-1")
    assert await until(alone, lambda read: len(read) == 1) == [update]


async def test_whatever_writes_to_the_state_beside_runs_is_told(gateway: Gateway) -> None:
    client = gateway.client()
    thread_id = (await client.threads.create())["thread_id"]
    await client.threads.update_state(thread_id, {"messages": talk(20)})
    updates = 0

    async def told() -> dict[str, Any]:
        """What the newest update says, when there is one more."""
        nonlocal updates
        updates += 1
        stream = client.threads.join_stream(thread_id, last_event_id="-1", stream_mode="state_update")
        parts = await until(stream, lambda read: len(read) == updates)
        assert [part.event for part in parts] == ["state_update"] * updates
        state: dict[str, Any] = parts[-1].data["state"]
        return state

    async with gateway.http() as http:

        async def asked(path: str, body: dict[str, Any]) -> Any:
            answer = await http.post(f"/threads/{thread_id}{path}", json=body)
            assert answer.status_code == 200, answer.text
            return answer.json()

        whole = (await told())["values"]["messages"]
        keep = {"type": "messages", "value": 4}
        compacted = await asked("/compact", {"keep": keep})
        seen = await told()
        assert seen["checkpoint_id"] == compacted["checkpoint_id"]
        assert len(seen["values"]["messages"]) == 4
        of = f"/compactions/{compacted['compaction_id']}"
        await asked(f"{of}/undo", {"force": True})
        assert (await told())["values"]["messages"] == whole
        await asked(f"{of}/redo", {})
        assert len((await told())["values"]["messages"]) == 4
        # A run tells of itself, and one that is taken back of the state that counts again.
        await client.runs.wait(thread_id, "agent", input=HELLO)
        run = await client.runs.create(thread_id, "agent", input=VERY_SLOW, stream_mode="messages-tuple")
        async for part in client.runs.join_stream(thread_id, run["run_id"]):
            if part.event == "messages":
                break
        await client.runs.cancel(thread_id, run["run_id"], wait=True, action="rollback")
        assert len((await told())["values"]["messages"]) == 6
        # Metadata is no state.
        await http.patch(f"/threads/{thread_id}/state", json={"metadata": {"a": 1}})
        assert await client.threads.get_state(thread_id)
        await client.threads.update_state(thread_id, {"title": "A name"})
        assert (await told())["values"]["title"] == "A name"


async def test_runs_that_never_began_or_were_taken_back_are_done_too(gateway: Gateway) -> None:
    client = gateway.client()
    thread_id = (await client.threads.create())["thread_id"]
    reading = asyncio.create_task(
        until(client.threads.join_stream(thread_id, last_event_id="-1"), runs_done(2))
    )
    first = await client.runs.create(thread_id, "agent", input=VERY_SLOW, stream_mode="messages-tuple")
    second = await client.runs.create(thread_id, "agent", input=HELLO)
    async for part in client.runs.join_stream(thread_id, first["run_id"]):
        if part.event == "messages":
            break
    await client.runs.cancel(thread_id, second["run_id"])
    await client.runs.cancel(thread_id, first["run_id"], action="rollback")
    parts = await reading
    assert {part.data["run_id"] for part in parts if is_done(part)} == {first["run_id"], second["run_id"]}


async def test_a_stream_of_a_thread_that_is_deleted_ends(gateway: Gateway) -> None:
    client = gateway.client()
    thread_id = (await client.threads.create())["thread_id"]

    async def read() -> list[Any]:
        return [part async for part in await client.threads.join_stream(thread_id)]

    reading = asyncio.create_task(read())
    await asyncio.sleep(0.2)
    await client.threads.delete(thread_id)
    async with asyncio.timeout(WAIT_S):
        assert await reading == []


async def test_what_cannot_be_followed_is_refused(gateway: Gateway) -> None:
    client = gateway.client()
    thread_id = (await client.threads.create())["thread_id"]
    async with gateway.http() as http:
        path = f"/threads/{thread_id}/stream"
        refused = [
            (await http.get(path, params={"stream_mode": "values"}), 422, "query.stream_mode"),
            (await http.get(path, params={"stream_modes": '["lifecycle", 1]'}), 422, "query.stream_mode"),
            (await http.get(path, headers={"last-event-id": "7"}), 422, "header.last-event-id"),
            (await http.get("/threads/3f1c2a52-1111-4222-8333-444455556666/stream"), 404, "no thread"),
        ]
    for response, status, named in refused:
        assert (response.status_code, named in response.json()["detail"]) == (status, True), response.text


@pytest.fixture
async def quiet(tmp_path: Path, database_url: str) -> AsyncIterator[Gateway]:
    async with serving(tmp_path, database_url, {"server": {"heartbeat_s": 0.5}}) as gateway:
        yield gateway


@pytest.mark.parametrize("count", [40, pytest.param(200, marks=pytest.mark.soak)])
async def test_idle_streams_cost_next_to_nothing_and_all_hear_of_a_run(quiet: Gateway, count: int) -> None:
    client = quiet.client()
    thread_id = (await client.threads.create())["thread_id"]
    limits = httpx.Limits(max_connections=count, max_keepalive_connections=0)
    heartbeats = 0

    async def follow(http: httpx.AsyncClient) -> None:
        nonlocal heartbeats
        async with http.stream("GET", f"/threads/{thread_id}/stream?stream_mode=lifecycle") as response:
            async for line in response.aiter_lines():
                heartbeats += line.startswith(": heartbeat")
                if "run_done" in line:
                    return

    async with httpx.AsyncClient(base_url=quiet.api, limits=limits, timeout=30) as http:
        streams = [asyncio.create_task(follow(http)) for _ in range(count)]
        async with asyncio.timeout(WAIT_S):
            while heartbeats < count:
                await asyncio.sleep(0.05)
        before, since = os.times(), time.monotonic()
        await asyncio.sleep(1.0)
        after = os.times()
        used = (after.user - before.user + after.system - before.system) / (time.monotonic() - since)
        # The readers are in this process too, and so many heartbeats: each stream has ten times the usual number.
        assert used < 0.1 + count / 400, f"{used:.0%} of a core"
        await client.runs.wait(thread_id, "agent", input=HELLO)
        async with asyncio.timeout(WAIT_S):
            await asyncio.gather(*streams)
