"""Any ten steps on a thread of the real service: its conversation has every message once, in order, byte for byte."""

from __future__ import annotations

import random
from typing import Any

import pytest

from tests.support.rig import SMALL, Rig, shared_rig
from tests.support.threads import Message, Thread, new_thread, talk, tool_round

pytestmark = pytest.mark.asyncio(loop_scope="module")

STEPS = ("say", "say", "use_tools", "edit", "compact", "compact", "compact", "undo", "undo", "redo", "fork")


served = shared_rig("steps", SMALL, modes=("delta", "full"))


class Walk:
    """``expected`` has, for each checkpoint, the whole conversation that ends there."""

    def __init__(self, thread: Thread, chance: random.Random) -> None:
        self.thread = thread
        self.chance = chance
        self.expected: dict[str, list[Message]] = {}
        self.count = 0

    async def step(self) -> str:
        name = self.chance.choice(STEPS)
        new = await getattr(self, name)()
        await self.look(new)
        return name

    async def look(self, conversation: list[Message]) -> None:
        """The thread's conversation is this one, and stays that of this checkpoint."""
        self.expected[await self.head()] = conversation
        entries = await self.thread.conversation(limit=self.chance.choice((10, 200)))
        assert [entry["message"] for entry in entries] == conversation
        assert [entry["seq"] for entry in entries] == list(range(1, len(conversation) + 1))
        live = await self.thread.messages()
        assert [entry["message"] for entry in entries if not entry["archived"]] == live

    async def head(self) -> str:
        return str((await self.thread.state())["checkpoint"]["checkpoint_id"])

    async def now(self) -> list[Message]:
        return self.expected[await self.head()]

    async def added(self, count: int) -> list[Message]:
        return (await self.thread.messages())[-count:]

    async def say(self) -> list[Message]:
        before = await self.now()
        self.count += 100
        await self.thread.put(talk(4, start=self.count))
        return before + await self.added(8)

    async def use_tools(self) -> list[Message]:
        before = await self.now()
        self.count += 100
        await self.thread.put(tool_round(self.count, 300, calls=2))
        return before + await self.added(3)

    async def edit(self) -> list[Message]:
        before = await self.now()
        last = (await self.thread.messages())[-1]
        await self.thread.put([{**last, "content": f"edited {self.count}"}])
        (edited,) = await self.added(1)
        return [edited if message["id"] == last["id"] else message for message in before]

    async def compact(self) -> list[Message]:
        before = await self.now()
        await self.thread.compacted(keep={"type": "messages", "value": self.chance.randint(1, 6)})
        return before

    async def undo(self) -> list[Message]:
        return await self.take("undoable", "undo")

    async def redo(self) -> list[Message]:
        return await self.take("redoable", "redo")

    async def take(self, flag: str, action: str) -> list[Message]:
        before = await self.now()
        markers = (await self.thread.page(limit=200))["markers"]
        for marker in markers:
            if marker[flag]:
                answer = await getattr(self.thread, action)(marker["compaction_id"])
                # A message that was edited in between is the one reason not to.
                assert answer.status_code == 200 or answer.json()["code"] == "not_redoable", answer.text
        return before

    async def fork(self) -> list[Message]:
        checkpoint_id, conversation = self.chance.choice(sorted(self.expected.items()))
        self.count += 100
        await self.thread.client.threads.update_state(
            self.thread.id, {"messages": talk(1, start=self.count)}, checkpoint_id=checkpoint_id
        )
        return conversation + await self.added(2)


async def walk(rig: Rig, seed: int, steps: int = 10) -> Any:
    chance = random.Random(seed)
    async with new_thread(rig.gateway, talk(6)) as thread:
        walk = Walk(thread, chance)
        await walk.look(await thread.messages())
        return [await walk.step() for _ in range(steps)]


@pytest.mark.parametrize("seed", range(2))
async def test_ten_steps_lose_and_double_nothing(served: Rig, seed: int) -> None:
    served.reset()
    assert len(await walk(served, seed)) == 10


@pytest.mark.soak
@pytest.mark.timeout(1800)
async def test_many_walks_lose_and_double_nothing(served: Rig) -> None:
    for seed in range(100, 160):
        served.reset()
        await walk(served, seed, 15)
