"""PostgreSQL is away for half a minute, in the middle of everything."""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx
import pytest

from app.persistence.database import connect
from tests.soak.invariants import BAD_EVENTS
from tests.support.server import OwnServer, own_server
from tests.support.service import DEMO_MODEL, Process, config, running
from tests.support.threads import talk

AWAY_SECONDS = 30
# What a request may take to be refused: as long as it waits for a connection, and a little.
LONGEST_ANSWER_SECONDS = 13
MADE = {"made": "while it was away"}
UNKNOWN = "/threads/00000000-0000-4000-8000-000000000000"


def slow(tokens: int) -> Any:
    return {"messages": [{"role": "user", "content": f"/slow {tokens}"}]}


@dataclass(frozen=True)
class Answer:
    """What a process said to what it was asked while its database was away: how long that took, and when it was."""

    path: str
    status: int
    retry_after: int
    seconds: float
    at: float


class Follower:
    """A client with a run, which goes on with ``Last-Event-ID`` as the official ones do."""

    def __init__(self, client: Any, thread_id: str, tokens: int) -> None:
        self._client = client
        self.thread_id = thread_id
        self.tokens = tokens
        self.parts: list[Any] = []
        self.begun = asyncio.Event()

    async def follow(self) -> None:
        stream = self._client.runs.stream(
            self.thread_id, "agent", input=slow(self.tokens), stream_mode=["messages-tuple", "values"]
        )
        async for part in stream:
            self.parts.append(part)
            if part.event == "messages":
                self.begun.set()

    @property
    def said(self) -> str:
        return "".join(part.data[0]["content"] for part in self.parts if part.event == "messages")


class Fleet:
    """A gateway that executes runs, one that does not, and a worker."""

    def __init__(self, processes: list[Process]) -> None:
        self.processes = processes
        self.gateways = [process for process in processes if process.url]

    def said(self, needle: str) -> list[str]:
        return [line for process in self.processes for line in process.output if needle in line]


@pytest.fixture
def server(open_folder: Path) -> Any:
    with own_server(open_folder / "postgres") as started:
        yield started


@pytest.fixture
async def fleet(server: OwnServer, tmp_path: Path) -> AsyncIterator[Fleet]:
    settings = config(
        models=[{**DEMO_MODEL, "summary_delay_s": 3}],
        summarization={"keep": {"type": "messages", "value": 4}},
        title={"enabled": False},
        runs={"concurrency": 8},
    )
    async with AsyncExitStack() as stack:
        processes = []
        for command in ("serve", "serve", "worker"):
            folder = tmp_path / f"{command}{len(processes)}"
            folder.mkdir()
            starting = running(folder, settings, command=command, database_url=server.url)
            processes.append(await stack.enter_async_context(starting))
        yield Fleet(processes)


async def asked(http: httpx.AsyncClient, method: str, path: str, **more: Any) -> Answer:
    began = time.monotonic()
    response = await http.request(method, path, **more)
    retry_after = int(response.headers.get("retry-after", "0"))
    now = time.monotonic()
    return Answer(path, response.status_code, retry_after, now - began, now)


async def ask_all_along(gateway: Process, thread_id: str, away: asyncio.Event) -> list[Answer]:
    """What the process answers, again and again, for as long as its database is away."""
    body = {"assistant_id": "agent", "input": slow(1)}
    answers: list[Answer] = []
    async with gateway.http() as http, asyncio.TaskGroup() as group:
        watching = group.create_task(watch(http, away))
        while away.is_set():
            answers += await asyncio.gather(
                asked(http, "GET", UNKNOWN),
                asked(http, "POST", f"/threads/{thread_id}/runs", json=body),
                asked(http, "POST", f"/threads/{thread_id}/compact", json={}),
                asked(http, "POST", "/threads", json={"metadata": MADE}),
            )
            await asyncio.sleep(1)
    return [*answers, *watching.result()]


async def watch(http: httpx.AsyncClient, away: asyncio.Event) -> list[Answer]:
    answers: list[Answer] = []
    while away.is_set():
        answers += [await asked(http, "GET", "/health"), await asked(http, "GET", "/ready")]
        await asyncio.sleep(0.5)
    return answers


async def until_ready(gateway: Process) -> float:
    began = time.monotonic()
    async with gateway.http() as http, asyncio.timeout(20):
        while (await http.get("/ready")).status_code != 200:
            await asyncio.sleep(0.1)
    return time.monotonic() - began


@dataclass
class Work:
    """What is under way when the database goes."""

    client: Any
    followers: list[Follower]
    tasks: list[asyncio.Task[Any]]
    behind: str
    waiting: asyncio.Task[Any]
    compacting: asyncio.Task[int]
    compacted_id: str
    quiet_id: str

    async def finish(self) -> None:
        await asyncio.gather(*self.tasks)
        await self.client.runs.join(self.followers[0].thread_id, self.behind)
        final = await self.waiting
        assert [message["type"] for message in final["messages"]] == ["human", "ai"]
        assert await self.compacting in (200, 503)

    async def check_streams(self) -> None:
        for follower in self.followers:
            parts = follower.parts
            assert [int(part.id) for part in parts] == list(range(1, len(parts) + 1))
            # Whoever executed it did so to its end, and nobody else began it again.
            assert [part.data["attempt"] for part in parts if part.event == "metadata"] == [1]
            assert [part.event for part in parts].count("end") == 1
            values: Any = (await self.client.threads.get_state(follower.thread_id))["values"]
            assert [message["type"] for message in values["messages"]][:2] == ["human", "ai"]
            assert follower.said == values["messages"][1]["content"]
            assert (await self.client.threads.get(follower.thread_id))["status"] == "idle"

    async def check_refused(self, answers: list[Answer]) -> None:
        """What was refused was not done behind the client's back, and what was not was done once."""
        served = Counter(answer.path for answer in answers if answer.status == 200)
        assert len(await self.client.runs.list(self.quiet_id)) == served[f"/threads/{self.quiet_id}/runs"]
        made = await self.client.threads.search(metadata=MADE, limit=1000)
        assert len(made) == served["/threads"]

    async def check_usable(self) -> None:
        for thread_id in (self.quiet_id, self.compacted_id):
            await self.client.runs.wait(thread_id, "agent", input=slow(1))
            assert (await self.client.threads.get(thread_id))["status"] == "idle"


async def begun(fleet: Fleet) -> Work:
    """Runs of which some end while the database is away and some go on longer, one that waits for its turn, one that is
    waited for, and a compaction."""
    first, second = fleet.gateways
    client = first.client()

    async def new_thread() -> str:
        return str((await client.threads.create())["thread_id"])

    followers = [
        Follower(process.client(), await new_thread(), tokens)
        for process in fleet.gateways
        for tokens in (40, 60, 80, 900)
    ]
    tasks = [asyncio.create_task(follower.follow()) for follower in followers]
    for follower in followers:
        await follower.begun.wait()
    behind = await client.runs.create(followers[0].thread_id, "agent", input=slow(2))
    compacted_id = await new_thread()
    await client.threads.update_state(compacted_id, {"messages": talk(20)})
    waiting = asyncio.create_task(client.runs.wait(await new_thread(), "agent", input=slow(50)))
    compacting = asyncio.create_task(compact(second, compacted_id))
    await asyncio.sleep(1)
    return Work(
        client, followers, tasks, behind["run_id"], waiting, compacting, compacted_id, await new_thread()
    )


def check_answers(answers: list[Answer], back: float, kind: str) -> None:
    for answer in answers:
        name = answer.path.rpartition("/")[2]
        if name == "health":
            assert (answer.status, answer.seconds < 2) == (200, True), answer
        elif answer.at < back:
            assert (answer.status, answer.retry_after > 0) == (503, True), answer
        if name == "ready":
            assert answer.seconds < 4, answer
        elif kind == "stopped":
            assert answer.seconds < LONGEST_ANSWER_SECONDS, answer
        # Nothing tells a server that is slow from one that is frozen: what was asked of it waits.
        assert answer.status in (200, 404, 409, 503), answer


@pytest.mark.soak
@pytest.mark.timeout(240)
@pytest.mark.parametrize("kind", ["stopped", "frozen"])
async def test_everything_goes_on_when_the_database_was_away_for_half_a_minute(
    kind: str, server: OwnServer, fleet: Fleet
) -> None:
    leave: Callable[[], None] = server.stop if kind == "stopped" else server.freeze
    come_back: Callable[[], None] = server.start if kind == "stopped" else server.thaw
    work = await begun(fleet)
    away = asyncio.Event()
    away.set()
    leave()
    probes = [asyncio.create_task(ask_all_along(gateway, work.quiet_id, away)) for gateway in fleet.gateways]
    await asyncio.sleep(AWAY_SECONDS)
    away.clear()
    back = time.monotonic()
    come_back()
    noticed = [await until_ready(gateway) for gateway in fleet.gateways]
    answers = [answer for probe in probes for answer in await probe]
    await work.finish()
    check_answers(answers, back, kind)
    assert max(noticed) < 5
    await work.check_streams()
    await work.check_refused(answers)
    async with await connect(server.url) as database:
        assert await (await database.execute(BAD_EVENTS)).fetchall() == []
    assert fleet.said("Traceback") == []
    await work.check_usable()


async def compact(gateway: Process, thread_id: str) -> int:
    async with gateway.http() as http:
        return (await http.post(f"/threads/{thread_id}/compact", json={})).status_code
