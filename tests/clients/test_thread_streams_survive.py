"""Thread streams (v2) of strangers, of workers that are killed, and of services that go down."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any
from uuid import uuid4

import httpx
import pytest
from websockets.asyncio.client import connect
from websockets.exceptions import ConnectionClosed, InvalidStatus

from tests.clients.test_thread_frames import ALL, Frame, frames, is_end, start, until_end
from tests.support.accounts import with_accounts
from tests.support.gateway import serving
from tests.support.service import config, running


async def test_nobody_else_sees_or_answers_a_thread(tmp_path: Path, database_url: str) -> None:
    thread_id = str(uuid4())
    async with with_accounts(tmp_path, database_url) as accounts:
        async with accounts.http("ann") as ann, accounts.http("bob") as bob, accounts.http(None) as nobody:
            await start(ann, thread_id, "mine")
            body = {"channels": ALL}
            path = f"/threads/{thread_id}"
            given = {"id": 1, "method": "run.start", "params": {"assistant_id": "agent", "input": None}}
            seen = [
                (
                    (await http.post(f"{path}/stream/events", json=body)).status_code,
                    (await http.post(f"{path}/commands", json=given)).status_code,
                )
                for http in (bob, nobody)
            ]
        url = f"{accounts.gateway.api.replace('http', 'ws', 1)}{path}/stream/events"
        with pytest.raises(InvalidStatus) as refused:
            async with connect(url):
                pass
        headers = {"x-api-key": accounts.keys["bob"]}
        subscribe = {"id": 1, "method": "subscription.subscribe", "params": body}
        async with asyncio.timeout(10), connect(url, additional_headers=headers) as opened:
            await opened.send(json.dumps(subscribe))
            answer = json.loads(await opened.recv())
            with pytest.raises(ConnectionClosed) as closed:
                await opened.recv()

    assert seen == [(404, 404), (401, 401)]
    assert refused.value.response.status_code == 401
    assert answer["error"] == "no_such_run"
    assert closed.value.rcvd is not None and closed.value.rcvd.code == 4404


async def test_a_run_whose_worker_is_killed_goes_on_in_the_same_stream(
    tmp_path: Path, database_url: str
) -> None:
    settings = config(title={"enabled": False})
    web, worker = tmp_path / "web", tmp_path / "worker"
    for folder in (web, worker):
        folder.mkdir()
    thread_id = str(uuid4())
    async with (
        serving(web, database_url, settings, work=False) as gateway,
        gateway.http() as http,
    ):
        await start(http, thread_id, "/slow 40")
        async with frames(http, thread_id) as stream:
            async with running(worker, settings, command="worker", database_url=database_url) as first:
                before = await _words(stream, 5)
                first.kill()
                await first.process.wait()
            async with running(worker, settings, command="worker", database_url=database_url):
                after = await until_end(stream, seconds=60)
        state = (await http.get(f"/threads/{thread_id}/state")).json()

    read = before + after
    numbers = [frame["seq"] for frame in read]
    assert numbers == sorted(set(numbers))
    assert [frame["params"]["data"]["event"] for frame in read if is_end(frame)] == ["completed"]
    cut_off = [f["params"]["data"]["id"] for f in after if f["params"]["data"].get("event") == "error"]
    said = {}
    for frame in read:
        data = frame["params"]["data"]
        if "delta" in data:
            said[data["id"]] = said.get(data["id"], "") + data["delta"]["text"]
    assert len(cut_off) == 1 and len(said) == 2
    assert said[state["values"]["messages"][-1]["id"]] == state["values"]["messages"][-1]["content"]


async def _words(stream: Any, count: int) -> list[Frame]:
    read: list[Frame] = []
    async with asyncio.timeout(40):
        while sum("delta" in frame["params"]["data"] for frame in read) < count:
            read.append(await anext(stream))
    return read


async def test_a_service_that_goes_down_cuts_the_stream_and_the_next_one_goes_on(
    tmp_path: Path, database_url: str
) -> None:
    folders = [tmp_path / name for name in ("first", "second")]
    for folder in folders:
        folder.mkdir()
    thread_id = str(uuid4())
    read: list[Frame] = []
    async with serving(folders[0], database_url) as gateway, gateway.http() as http:
        await start(http, thread_id, "/slow 60")
        with pytest.raises(httpx.RemoteProtocolError):
            async with frames(http, thread_id) as stream:
                read += await _words(stream, 3)
                gateway.core.begin_stop()
                async with asyncio.timeout(10):
                    async for frame in stream:
                        read.append(frame)
    async with (
        serving(folders[1], database_url) as gateway,
        gateway.http() as http,
        frames(http, thread_id, since=read[-1]["seq"]) as stream,
    ):
        read += await until_end(stream)

    numbers = [frame["seq"] for frame in read]
    assert numbers == sorted(set(numbers))
    assert [frame["params"]["data"]["event"] for frame in read if is_end(frame)] == ["completed"]


async def test_a_stream_on_which_nothing_happens_beats(tmp_path: Path, database_url: str) -> None:
    sections = {"server": {"heartbeat_s": 0.2}}
    async with serving(tmp_path, database_url, sections) as gateway, gateway.http() as http:
        thread_id = (await http.post("/threads", json={})).json()["thread_id"]
        body = {"channels": ["lifecycle"]}
        async with (
            asyncio.timeout(10),
            http.stream("POST", f"/threads/{thread_id}/stream/events", json=body) as answer,
        ):
            lines = answer.aiter_lines()
            beats = [line async for _, line in _first(lines, 3)]

    assert beats == [": stream", ": heartbeat", ": heartbeat"]


async def _first(lines: Any, count: int) -> Any:
    found = 0
    async for line in lines:
        if line:
            yield found, line
            found += 1
        if found == count:
            return
