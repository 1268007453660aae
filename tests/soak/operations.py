"""What clients do to threads, by chance and at the same time; and what they were told."""

from __future__ import annotations

import asyncio
import random
from collections import Counter
from collections.abc import Awaitable, Mapping
from dataclasses import dataclass, field
from typing import Any

import httpx

from tests.soak.fleet import GRAPH, Fleet

OPERATIONS = {
    "run": 34,
    "cancel": 10,
    "compact": 14,
    "foresee": 5,
    "draft": 4,
    "undo": 7,
    "redo": 3,
    "pin": 4,
    "unpin": 2,
    "write": 12,
    "copy": 3,
    "delete": 2,
}
"""How likely each operation is, beside the kills."""

STRATEGIES = ("enqueue", "enqueue", "interrupt", "rollback", "reject")
# What a thread, a run or a message may have become meanwhile.
FINE = {200, 202, 204, 404, 409}
UNAVAILABLE = 503
WORDS = ["bed", "seed", "row", "soil", "water", "frost", "compost", "spade", "rake", "fence"]


@dataclass
class Known:
    """A thread as its clients know it. ``written`` are ids of messages whose state write was acknowledged, ``asked``
    the run of each question, ``base`` the conversation that a copy began with."""

    id: str
    base: list[str] = field(default_factory=list)
    written: list[str] = field(default_factory=list)
    asked: dict[str, str] = field(default_factory=dict)
    tried: list[str] = field(default_factory=list)
    deleted: bool = False


class Clients:
    """Some clients that share what they know. ``problems`` are answers that nobody should get."""

    def __init__(self, fleet: Fleet, seed: int) -> None:
        self._fleet = fleet
        self._seed = seed
        self.threads: list[Known] = []
        self.gone: list[Known] = []
        self.answers: Counter[tuple[str, int]] = Counter()
        self.problems: list[str] = []
        self.streams: dict[str, list[int]] = {}
        self._following: list[asyncio.Task[None]] = []

    async def begin(self, count: int) -> None:
        for _ in range(count):
            self.threads.append(await self._new())

    async def operate(self, count: int, kills: int, clients: int = 8) -> None:
        """So many operations, ``kills`` of them the death of a worker; each client does one after the other."""
        chance = random.Random(self._seed)
        names = chance.choices([*OPERATIONS], [*OPERATIONS.values()], k=count)
        for number in range(kills):
            # Spread, so that there is something to kill each time.
            names[(2 * number + 1) * count // (2 * kills)] = "kill"
        waiting = iter(enumerate(names))

        async def client() -> None:
            for number, name in waiting:
                await self._one(number, name)

        await asyncio.gather(*(client() for _ in range(clients)))

    async def followed(self) -> None:
        """Every stream that was followed has ended."""
        await asyncio.gather(*self._following)

    async def _one(self, number: int, name: str) -> None:
        operation = Operation(self, self._fleet, random.Random(f"{self._seed}-{number}"), number)
        try:
            await getattr(operation, name)()
        except httpx.HTTPError as error:
            self.problems.append(f"{number} {name}: {error!r}")

    async def _new(self) -> Known:
        answer = await self._fleet.replicas[0].post("/threads", json={"metadata": {"graph_id": GRAPH}})
        return Known(answer.json()["thread_id"])

    async def replace(self, known: Known) -> None:
        known.deleted = True
        self.gone.append(known)
        self.threads[self.threads.index(known)] = await self._new()

    def follow(self, following: Awaitable[None]) -> None:
        self._following.append(asyncio.ensure_future(following))


class Operation:
    """One operation. All it decides comes from ``chance``."""

    def __init__(self, clients: Clients, fleet: Fleet, chance: random.Random, number: int) -> None:
        self._clients = clients
        self._fleet = fleet
        self._chance = chance
        self._number = number
        self._known = chance.choice(clients.threads)

    @property
    def _path(self) -> str:
        return f"/threads/{self._known.id}"

    async def _send(self, method: str, path: str, **options: Any) -> httpx.Response:
        replica = self._chance.choice(self._fleet.replicas)
        answer = await replica.request(method, path, **options)
        shown = path.replace(self._known.id, "ID").split("/")[-1].split("?")[0]
        self._clients.answers[f"{method} {shown if len(shown) < 20 else 'ID'}", answer.status_code] += 1
        if answer.status_code not in FINE | {UNAVAILABLE}:
            self._clients.problems.append(
                f"{self._number} {method} {path}: {answer.status_code} {answer.text[:300]}"
            )
        return answer

    def _message(self, kind: str, commands: str = "") -> dict[str, str]:
        message_id = f"m{self._number}"
        self._known.tried.append(message_id)
        text = " ".join(self._chance.choices(WORDS, k=self._chance.randint(20, 250)))
        return {"type": kind, "id": message_id, "content": f"{message_id} says {text}\n{commands}"}

    async def run(self) -> None:
        tools = "\n/then\n".join('/tool measure {"bed": "A"}' for _ in range(self._chance.randint(1, 4)))
        message = self._message("human", self._chance.choice(("", "", "/slow 6", "/slow 20", tools)))
        body = {
            "assistant_id": GRAPH,
            "input": {"messages": [message]},
            "multitask_strategy": self._chance.choice(STRATEGIES),
            "stream_mode": ["messages-tuple", "custom"],
        }
        known = self._known
        answer = await self._send("POST", f"{self._path}/runs", json=body)
        if answer.status_code == 200:
            known.asked[message["id"]] = answer.json()["run_id"]
            reading = self._read(known, answer.json()["run_id"])
            if self._chance.random() < 0.6:
                await reading
            else:
                self._clients.follow(reading)

    async def _read(self, known: Known, run_id: str) -> None:
        """The ids of a run's stream, as a client at some replica gets them, also when it comes back in between."""
        seen: list[int] = []
        replica = self._chance.choice(self._fleet.replicas)
        path = f"/threads/{known.id}/runs/{run_id}/stream"
        for most in (self._chance.randint(1, 9), None):
            headers = {"last-event-id": str(seen[-1])} if seen else {}
            async with replica.stream("GET", path, headers=headers, timeout=120) as answer:
                async for line in answer.aiter_lines():
                    if line.startswith("id:"):
                        seen.append(int(line[3:]))
                    if most is not None and len(seen) >= most:
                        break
        self._clients.streams[run_id] = seen

    async def cancel(self) -> None:
        if not self._known.asked:
            return
        run_id = self._chance.choice([*self._known.asked.values()][-2:])
        action, wait = self._chance.choice(("interrupt", "rollback")), self._chance.choice((0, 1))
        path = f"{self._path}/runs/{run_id}/cancel?action={action}&wait={wait}"
        await self._send("POST", path)

    async def compact(self) -> None:
        await self._send("POST", f"{self._path}/compact", json={"keep": self._keep()})

    async def foresee(self) -> None:
        await self._send("POST", f"{self._path}/compact", json={"keep": self._keep(), "dry_run": "plan"})

    async def draft(self) -> None:
        body = {"keep": self._keep(), "dry_run": "summary"}
        answer = await self._send("POST", f"{self._path}/compact", json=body)
        if answer.status_code == 200 and answer.json()["status"] == "draft":
            await self._send(
                "POST", f"{self._path}/compactions/{answer.json()['compaction_id']}/apply", json={}
            )

    async def undo(self) -> None:
        await self._take("undo", "committed")

    async def redo(self) -> None:
        await self._take("redo", "undone")

    async def _take(self, action: str, status: str) -> None:
        answer = await self._send("GET", f"{self._path}/compactions")
        if answer.status_code != 200:
            return
        for record in answer.json()["data"]:
            if record["status"] == status and record["kind"] not in ("undo", "redo"):
                await self._send("POST", f"{self._path}/compactions/{record['compaction_id']}/{action}")
                return

    async def pin(self) -> None:
        if self._known.tried:
            message_id = self._chance.choice(self._known.tried)
            await self._send("PUT", f"{self._path}/messages/{message_id}/pin")

    async def unpin(self) -> None:
        answer = await self._send("GET", f"{self._path}/pins")
        for pin in answer.json()["data"] if answer.status_code == 200 else ():
            await self._send("DELETE", f"{self._path}/messages/{pin['message_id']}/pin")

    async def write(self) -> None:
        known, message = self._known, self._message("human")
        answer = await self._send("POST", f"{self._path}/state", json={"values": {"messages": [message]}})
        if answer.status_code == 200:
            known.written.append(message["id"])

    async def copy(self) -> None:
        known = self._known
        written = [*known.written]
        answer = await self._send("POST", f"{self._path}/copy")
        if answer.status_code != 200:
            return
        copy = Known(answer.json()["thread_id"])
        copy.base = [entry["message"]["id"] for entry in await conversation(self._fleet.replicas[0], copy.id)]
        missing = {*written} - {*copy.base}
        if missing:
            self._clients.problems.append(f"{self._number}: the copy {copy.id} has not {missing}")
        self._clients.threads.append(copy)

    async def delete(self) -> None:
        known = self._known
        answer = await self._send("DELETE", self._path, timeout=90)
        if answer.status_code == 204 and not known.deleted:
            await self._clients.replace(known)

    async def kill(self) -> None:
        await self._fleet.kill_worker()
        self._clients.answers["kill -9", 0] += 1

    def _keep(self) -> Mapping[str, Any]:
        return {"type": "messages", "value": self._chance.randint(1, 6)}


async def conversation(replica: httpx.AsyncClient, thread_id: str) -> list[dict[str, Any]]:
    """All entries, oldest first."""
    entries: list[dict[str, Any]] = []
    before: Mapping[str, Any] = {}
    while True:
        query = {"limit": 200, "include_hidden": True, **before}
        answer = await replica.get(f"/threads/{thread_id}/messages", params=query)
        assert answer.status_code == 200, answer.text
        page = answer.json()
        entries = page["data"] + entries
        if not page["has_more"]:
            return entries
        before = {"before_seq": page["next_before_seq"]}
