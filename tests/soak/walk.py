"""A walk over one thread of the real service: steps by chance, and after each the whole conversation is looked at."""

from __future__ import annotations

import json
import random
from collections import Counter
from collections.abc import Mapping, Sequence
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

import httpx

from tests.soak.histories import Author
from tests.support.gateway import Gateway, serving
from tests.support.rig import PLAIN, SMALL
from tests.support.threads import Message, Thread, new_thread, seen_from

STEPS = {
    "say": 2,
    "turn": 3,
    "long_turn": 3,
    "tool_turn": 2,
    "compact": 5,
    "draft": 2,
    "apply": 3,
    "undo": 4,
    "redo": 4,
    "pin": 2,
    "unpin": 1,
    "copy": 1,
    "fork_by_write": 2,
    "fork_by_run": 2,
    "restart": 1,
}
"""How likely each step is."""

# What may stand in the way of a step, and is then told as it should be.
REFUSED = {
    "apply": {"draft_stale"},
    "redo": {"not_redoable", "message_pinned"},
    "pin": {"pin_budget_exceeded"},
}


class World:
    """The service with the demo model on one database. It can be stopped and started again."""

    def __init__(self, folder: Path, url: str, **sections: Any) -> None:
        self._folder = folder
        self._url = url
        self._sections = {**PLAIN, "summarization": SMALL, **sections}
        self._stack = AsyncExitStack()
        self.gateway: Gateway

    @property
    def dynamic(self) -> bool:
        """Whether the model is told the date, in messages that people are not shown."""
        return bool(self._sections.get("dynamic_context", {}).get("enabled"))

    async def start(self) -> None:
        self.gateway = await self._stack.enter_async_context(serving(self._folder, self._url, self._sections))

    async def stop(self) -> None:
        await self._stack.aclose()


def texts(messages: Sequence[Message]) -> list[str]:
    """Messages as the bytes they were sent in: the order of their fields counts."""
    return [json.dumps(message, ensure_ascii=False) for message in messages]


class Walk:
    """``expected`` has, for each checkpoint that was seen, the whole conversation that ends there."""

    def __init__(self, world: World, seed: int) -> None:
        self.world = world
        self.chance = random.Random(seed)
        self.author = Author(self.chance)
        self.expected: dict[str, list[Message]] = {}
        self.happened: Counter[str] = Counter()
        self.draft: str | None = None
        self.left: list[tuple[str, list[Message]]] = []
        self.thread: Thread
        self._clients = AsyncExitStack()

    async def go(self, steps: int) -> None:
        """Take so many steps, then see that the thread still works."""
        async with self._clients:
            self.thread = await self._clients.enter_async_context(new_thread(self.world.gateway))
            await self.thread.put(self.author.history(self.chance.randint(8, 14)))
            await self._look(await self.thread.messages())
            for name in self.chance.choices([*STEPS], [*STEPS.values()], k=steps):
                self.happened[f"{name} tried"] += 1
                await self._look(await getattr(self, f"_{name}")())
            await self._works()
            for thread_id, conversation in self.left:
                await self._use(thread_id)
                await self._is_whole(conversation)

    async def _look(self, conversation: Sequence[Message]) -> None:
        self.expected[await self._head()] = list(conversation)
        await self._is_whole(conversation)

    async def _is_whole(self, conversation: Sequence[Message]) -> None:
        """Every message once, in order, byte for byte; and what is not archived is what the state holds."""
        entries = await self.thread.conversation(limit=self.chance.choice((1, 7, 50, 200)))
        assert texts([entry["message"] for entry in entries]) == texts(conversation)
        assert [entry["seq"] for entry in entries] == list(range(1, len(conversation) + 1))
        live = [entry["message"] for entry in entries if not entry["archived"]]
        assert texts(live) == texts(await self.thread.messages())

    async def _works(self) -> None:
        """A turn goes well, and what is archived is found by a word that stands nowhere else."""
        await self._look(await self._turn())
        entries = await self.thread.conversation()
        archived = [
            e["message"]["id"] for e in entries if e["archived"] and e["message"]["id"] in self.author.words
        ]
        for message_id in self.chance.sample(archived, min(3, len(archived))):
            assert message_id in await self._found(self.author.words[message_id])
            self.happened["found"] += 1
        assert not [r for r in await self.thread.records() if r["status"] == "committing"]

    async def _found(self, word: str) -> list[str]:
        found = await self.thread.http.get(f"/threads/{self.thread.id}/messages/search", params={"q": word})
        assert found.status_code == 200, found.text
        return [hit["message_id"] for hit in found.json()["data"]]

    async def _head(self) -> str:
        return str((await self.thread.state())["checkpoint"]["checkpoint_id"])

    async def _now(self) -> list[Message]:
        return self.expected[await self._head()]

    async def _use(self, thread_id: str) -> None:
        """Go on with this thread at the service that is running now."""
        await self._clients.aclose()
        there = Thread(thread_id, self.thread.client, self.thread.http)
        self.thread = await self._clients.enter_async_context(seen_from(self.world.gateway, there))

    def _counted(self, name: str, answer: httpx.Response) -> dict[str, Any] | None:
        """The answer. None when the step was refused for a good reason."""
        if answer.status_code == 200:
            self.happened[name] += 1
            return answer.json()  # type: ignore[no-any-return]
        assert answer.status_code == 409, answer.text
        assert answer.json()["code"] in REFUSED[name], answer.text
        return None

    # Steps: each returns the conversation as it must be now.

    async def _say(self) -> list[Message]:
        before, known = await self._now(), await self.thread.ids()
        await self.thread.put(self.author.history(2))
        self.happened["say"] += 1
        return before + (await self.thread.messages())[len(known) :]

    async def _turn(self) -> list[Message]:
        return await self._run(self.author.text(), await self._now())

    async def _long_turn(self) -> list[Message]:
        return await self._run(self.author.text(self.chance.randint(900, 1500)), await self._now())

    async def _tool_turn(self) -> list[Message]:
        rounds = "\n/then\n".join(
            f'/tool write_file {{"path": "{self.author.word()}.md", "content": "beds"}}\n/tool list_files {{}}'
            for _ in range(self.chance.randint(2, 5))
        )
        return await self._run(
            f"{self.author.text(self.chance.choice((20, 700)))}\n{rounds}", await self._now()
        )

    async def _run(self, text: str, before: Sequence[Message], **options: Any) -> list[Message]:
        """What the run said comes from its own checkpoints: a part of it may be compacted before the run is over."""
        client, given = self.thread.client, {"messages": [{"role": "user", "content": text}]}
        run = await client.runs.create(self.thread.id, "agent", input=given, **options)
        await client.runs.join(self.thread.id, run["run_id"])
        ended = await client.runs.get(self.thread.id, run["run_id"])
        assert ended["status"] == "success", ended
        conversation = {message["id"]: message for message in before}
        for state in reversed(await self._states_of(run["run_id"])):
            conversation |= {message["id"]: message for message in state["values"].get("messages", [])}
            if not self.world.dynamic:
                # A question that has got its date is another one than the bare one before, where nobody goes back to.
                self.expected[state["checkpoint"]["checkpoint_id"]] = [*conversation.values()]
        made = [record for record in await self.thread.records() if record["run_id"] == run["run_id"]]
        self.happened["auto"] += sum(record["status"] == "committed" for record in made)
        self.happened["turn"] += 1
        return [*conversation.values()]

    async def _states_of(self, run_id: str) -> list[dict[str, Any]]:
        """The run's checkpoints, newest first."""
        body = {"limit": 100, "metadata": {"run_id": run_id}}
        answer = await self.thread.http.post(f"/threads/{self.thread.id}/history", json=body)
        assert answer.status_code == 200, answer.text
        return answer.json()  # type: ignore[no-any-return]

    async def _compact(self) -> list[Message]:
        before = await self._now()
        done = await self.thread.compacted(keep={"type": "messages", "value": self.chance.randint(1, 8)})
        self.happened["compact"] += done["compacted"]
        return before

    async def _draft(self) -> list[Message]:
        before = await self._now()
        draft = await self.thread.compacted(
            dry_run="summary", keep={"type": "messages", "value": self.chance.randint(1, 6)}
        )
        self.draft = draft["compaction_id"] if draft["status"] == "draft" else None
        return before

    async def _apply(self) -> list[Message]:
        before = await self._now() if self.draft else await self._draft()
        if self.draft:
            body = self.chance.choice(({}, {"summary_text": "## Intent\nForty beds, by a person."}))
            path = f"/threads/{self.thread.id}/compactions/{self.draft}/apply"
            self._counted("apply", await self.thread.http.post(path, json=body))
            self.draft = None
        return before

    async def _undo(self) -> list[Message]:
        return await self._take("undo")

    async def _redo(self) -> list[Message]:
        """What nobody took back before is taken back first."""
        if not any(marker["redoable"] for marker in await self._markers()):
            await self._look(await self._take("undo"))
        return await self._take("redo")

    async def _take(self, action: str) -> list[Message]:
        before, flag = await self._now(), {"undo": "undoable", "redo": "redoable"}[action]
        for marker in await self._markers():
            if marker[flag]:
                self._counted(action, await getattr(self.thread, action)(marker["compaction_id"]))
        return before

    async def _markers(self) -> list[dict[str, Any]]:
        return (await self.thread.page(limit=200, include_hidden=True))["markers"]  # type: ignore[no-any-return]

    async def _pin(self) -> list[Message]:
        before = await self._now()
        message_id = self.chance.choice(await self.thread.ids())
        self._counted(
            "pin", await self.thread.http.put(f"/threads/{self.thread.id}/messages/{message_id}/pin")
        )
        return before

    async def _unpin(self) -> list[Message]:
        before = await self._now()
        for pin in (await self.thread.http.get(f"/threads/{self.thread.id}/pins")).json()["data"]:
            answer = await self.thread.http.delete(
                f"/threads/{self.thread.id}/messages/{pin['message_id']}/pin"
            )
            assert answer.status_code == 204, answer.text
            self.happened["unpin"] += 1
        return before

    async def _copy(self) -> list[Message]:
        """Go on with the copy. The one it was made of must be the same at the end."""
        before = await self._now()
        answer = self._counted("copy", await self.thread.http.post(f"/threads/{self.thread.id}/copy"))
        assert answer
        self.left.append((self.thread.id, before))
        self.draft = None
        await self._use(answer["thread_id"])
        return before

    async def _fork_by_write(self) -> list[Message]:
        checkpoint_id, conversation = self._earlier()
        known = {message["id"] for message in conversation}
        await self.thread.client.threads.update_state(
            self.thread.id, {"messages": self.author.turn()}, checkpoint_id=checkpoint_id
        )
        self.happened["fork"] += 1
        if (await self.thread.client.threads.get_state(self.thread.id))["next"]:
            # Written in the midst of a run: the thread waits for its model, and nobody may compact it before.
            await self.thread.client.runs.wait(self.thread.id, "agent", input=None)
        return conversation + [m for m in await self.thread.messages() if m["id"] not in known]

    async def _fork_by_run(self) -> list[Message]:
        checkpoint_id, conversation = self._earlier()
        self.happened["fork"] += 1
        return await self._run(self.author.text(), conversation, checkpoint_id=checkpoint_id)

    def _earlier(self) -> tuple[str, list[Message]]:
        return self.chance.choice(sorted(self.expected.items()))

    async def _restart(self) -> list[Message]:
        before = await self._now()
        await self._clients.aclose()
        await self.world.stop()
        await self.world.start()
        await self._use(self.thread.id)
        self.happened["restart"] += 1
        return before


def summed(walks: Sequence[Walk]) -> Mapping[str, int]:
    """What really happened on all of them."""
    total: Counter[str] = Counter()
    for walk in walks:
        total.update(walk.happened)
    return total
