"""Processes that are killed in the middle of a compaction: nothing is lost, nothing is doubled (rule F1)."""

from __future__ import annotations

import asyncio
import random
from collections.abc import AsyncIterator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx
import pytest
from psycopg import AsyncConnection

from app.persistence.database import connect
from tests.support.answers import Answer, Hang, Reply, Request
from tests.support.provider import Provider
from tests.support.rig import SMALL
from tests.support.service import Process, config, running
from tests.support.threads import (
    SUMMARY,
    Message,
    Served,
    Thread,
    is_summary_call,
    new_thread,
    seen_from,
    stand_in,
    summaries_asked,
    talk,
)

# A history that says so is summarised by nobody before its process is dead.
ENDLESS = "Take your time."
HISTORY = talk(12)
ENDLESS_HISTORY = [{"type": "human", "id": "mark", "content": ENDLESS}, *HISTORY]
QUESTION = "And now?"
VICTIM = "victim"


@dataclass
class Scene:
    """A process that is going to be killed, the database it works on, and the provider that both need."""

    folder: Path
    url: str
    provider: Provider
    database: AsyncConnection[Any]
    victim_lives: bool = True

    def settings(self) -> dict[str, Any]:
        return config(models=[stand_in("main", self.provider)], summarization=SMALL)

    def summarize(self, request: Request) -> Answer:
        if not self.victim_lives:
            return Reply(SUMMARY)
        return Hang() if ENDLESS in request.text else Hang(then=Reply(SUMMARY))

    @asynccontextmanager
    async def victim(self) -> AsyncIterator[Process]:
        folder = self.folder / f"victim{random.getrandbits(32)}"
        folder.mkdir()
        marked = f"{self.url}&application_name={VICTIM}"
        async with running(folder, self.settings(), database_url=marked) as process:
            yield process

    @asynccontextmanager
    async def witness(self) -> AsyncIterator[Process]:
        (self.folder / "witness").mkdir()
        async with running(self.folder / "witness", self.settings(), database_url=self.url) as process:
            yield process

    async def kill(self, victim: Process) -> None:
        """Nothing that the victim had sent to the database happens any more either."""
        self.victim_lives = False
        victim.kill()
        await victim.process.wait()
        await self.database.execute(
            "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = %s", (VICTIM,)
        )

    async def stuck(self, writers: int) -> None:
        """Wait until so many connections of the victim wait for a lock. Bounded by the test's time."""
        while await self.one("n", _WAITING, VICTIM) < writers:
            await asyncio.sleep(0.02)

    async def time_stands_still(self, thread: Thread) -> None:
        """The dead process holds the thread for half a minute at most; starting another one may take longer here."""
        assert 0 < await self.one("s", _HELD_FOR, thread.id) <= 30
        await self.database.execute(_HOLD, (3600, thread.id))

    async def time_passes(self, thread: Thread) -> None:
        await self.database.execute(_HOLD, (0, thread.id))

    async def one(self, column: str, query: str, *parameters: Any) -> Any:
        row = await (await self.database.execute(query.encode(), parameters)).fetchone()
        return row and row[column]


_WAITING = (
    "SELECT count(*) AS n FROM pg_stat_activity WHERE application_name = %s AND wait_event_type = 'Lock'"
)
_HELD_FOR = "SELECT extract(epoch FROM reserved_until - now())::float8 AS s FROM threads WHERE thread_id = %s"
_HOLD = b"UPDATE threads SET reserved_until = now() + make_interval(secs => %s) WHERE thread_id = %s"
_STORED = "SELECT count(*) AS n FROM checkpoints WHERE thread_id = %s AND metadata ? 'compaction_id'"


@pytest.fixture
async def scene(tmp_path: Path, database_url: str, provider: Provider) -> AsyncIterator[Scene]:
    async with await connect(database_url) as database:
        scene = Scene(tmp_path, database_url, provider, database)
        provider.when(is_summary_call, scene.summarize)
        yield scene


async def threads(stack: AsyncExitStack, served: Served, *histories: Sequence[Message]) -> list[Thread]:
    return [await stack.enter_async_context(new_thread(served, history)) for history in histories]


async def seen(stack: AsyncExitStack, served: Served, *known: Thread) -> list[Thread]:
    return [await stack.enter_async_context(seen_from(served, thread)) for thread in known]


async def unanswered(thread: Thread) -> None:
    with suppress(httpx.HTTPError):
        await thread.compact()


async def started(thread: Thread) -> str:
    """A run that compacts before it answers."""
    question = {"messages": [{"role": "user", "content": QUESTION}]}
    return str((await thread.client.runs.create(thread.id, "agent", input=question))["run_id"])


def said(messages: Sequence[Message]) -> list[Any]:
    return [message["content"] for message in messages]


async def is_whole(thread: Thread, expected: Sequence[Any]) -> None:
    """What committed compactions removed and what is live make up the conversation, each message once."""
    removed: list[Message] = []
    for record in reversed(await thread.records()):
        assert record["status"] in ("committed", "failed", "skipped")
        if record["status"] == "committed":
            own = (await thread.record(record["compaction_id"]))["removed_messages"]
            assert len(own) == record["removed_message_count"]
            removed += own
    assert said(removed) + said(await thread.messages()) == list(expected)
    if removed:
        assert (await thread.values())["summary_text"] == SUMMARY


@pytest.mark.timeout(120)
async def test_a_killed_process_leaves_threads_as_they_were_and_its_runs_to_others(scene: Scene) -> None:
    async with AsyncExitStack() as stack:
        victim = await stack.enter_async_context(scene.victim())
        histories = (ENDLESS_HISTORY, HISTORY, ENDLESS_HISTORY, HISTORY)
        asking, writing, run_asking, run_writing = await threads(stack, victim, *histories)
        calls = [asyncio.create_task(unanswered(thread)) for thread in (asking, writing)]
        runs = [await started(thread) for thread in (run_asking, run_writing)]
        await summaries_asked(scene.provider, 4)
        async with scene.database.transaction():
            # The archive gets written, the state does not.
            await scene.database.execute("LOCK TABLE checkpoints IN EXCLUSIVE MODE")
            scene.provider.release()
            await scene.stuck(2)
            await scene.kill(victim)
        await asyncio.gather(*calls)
        for thread in (asking, writing):
            await scene.time_stands_still(thread)
        witness = await stack.enter_async_context(scene.witness())
        manual = await seen(stack, witness, asking, writing)
        for thread, history in zip(manual, histories, strict=False):
            assert said(await thread.messages()) == said(history)
            assert not (await thread.values()).get("summary_text")
            assert (await thread.compact()).json()["code"] == "thread_busy"
        assert [[r["status"] for r in await thread.records()] for thread in manual] == [[], ["committing"]]
        for thread, history in zip(manual, histories, strict=False):
            await scene.time_passes(thread)
            assert (await thread.compacted())["compacted"]
            await is_whole(thread, said(history))
        failed = (await manual[1].records())[1]
        assert (failed["status"], failed["reason"]) == ("failed", "not_committed")
        automatic = await seen(stack, witness, run_asking, run_writing)
        for thread, run_id, history in zip(automatic, runs, histories, strict=False):
            await thread.client.runs.join(thread.id, run_id)
            assert (await thread.client.runs.get(thread.id, run_id))["status"] == "success"
            await is_whole(thread, [*said(history), QUESTION, "ok"])
            assert [r["status"] for r in await thread.records()].count("committed") == 1


@pytest.mark.timeout(120)
async def test_a_state_that_was_written_counts_though_nobody_noted_it(scene: Scene) -> None:
    async with AsyncExitStack() as stack:
        victim = await stack.enter_async_context(scene.victim())
        (thread,) = await threads(stack, victim, HISTORY)
        head = (await thread.state())["checkpoint"]["checkpoint_id"]
        call = asyncio.create_task(unanswered(thread))
        await summaries_asked(scene.provider, 1)
        noting = await stack.enter_async_context(await connect(scene.url))
        async with noting.transaction():
            async with scene.database.transaction():
                await scene.database.execute("LOCK TABLE checkpoints IN EXCLUSIVE MODE")
                scene.provider.release()
                await scene.stuck(1)
                await noting.execute(
                    "SELECT 1 FROM compactions WHERE thread_id = %s FOR UPDATE", (thread.id,)
                )
            while not await scene.one("n", _STORED, thread.id):
                await asyncio.sleep(0.02)
            await scene.stuck(1)
            await scene.kill(victim)
        await call
        await scene.time_stands_still(thread)
        witness = await stack.enter_async_context(scene.witness())
        (there,) = await seen(stack, witness, thread)
        assert [record["status"] for record in await there.records()] == ["committing"]
        await scene.time_passes(there)
        (record,) = await there.records()
        assert (record["status"], record["reason"], record["error"]) == ("committed", None, None)
        assert record["checkpoint_before"] == head
        assert record["checkpoint_after"] == (await there.state())["checkpoint"]["checkpoint_id"]
        await is_whole(there, said(HISTORY))
        assert (await there.compacted())["reason"] == "nothing_to_remove"


async def undo_unanswered(thread: Thread, compaction_id: str) -> None:
    with suppress(httpx.HTTPError):
        await thread.undo(compaction_id)


@pytest.mark.timeout(120)
async def test_an_undo_that_is_killed_half_way_has_happened_or_has_not(scene: Scene) -> None:
    """One is killed before its state is written, the other one after that and before it is noted."""
    scene.victim_lives = False
    async with AsyncExitStack() as stack:
        victim = await stack.enter_async_context(scene.victim())
        unwritten, written = await threads(stack, victim, HISTORY, HISTORY)
        made = [(await thread.compacted())["compaction_id"] for thread in (unwritten, written)]
        # Who reads of the archive first locks the record to sort in what it removed.
        for thread, compaction_id in zip((unwritten, written), made, strict=True):
            assert (await thread.record(compaction_id))["removed_messages"]
        noting = await stack.enter_async_context(await connect(scene.url))
        async with noting.transaction():
            await noting.execute("SELECT 1 FROM compactions WHERE thread_id = %s FOR UPDATE", (written.id,))
            second = asyncio.create_task(undo_unanswered(written, made[1]))
            while await scene.one("n", _STORED, written.id) < 2:
                await asyncio.sleep(0.02)
            async with scene.database.transaction():
                await scene.database.execute("LOCK TABLE checkpoints IN EXCLUSIVE MODE")
                first = asyncio.create_task(undo_unanswered(unwritten, made[0]))
                await scene.stuck(2)
                await scene.kill(victim)
        await asyncio.gather(first, second)
        for thread in (unwritten, written):
            await scene.time_stands_still(thread)
        witness = await stack.enter_async_context(scene.witness())
        unwritten, written = await seen(stack, witness, unwritten, written)
        for thread, compaction_id in zip((unwritten, written), made, strict=True):
            assert [r["status"] for r in await thread.records()] == ["committing", "committed"]
            assert (await thread.undo(compaction_id)).json()["code"] == "thread_busy"
            assert said([e["message"] for e in await thread.conversation()]) == said(HISTORY)
            await scene.time_passes(thread)
        assert [r["status"] for r in await unwritten.records()] == ["failed", "committed"]
        assert [r["status"] for r in await written.records()] == ["committed", "undone"]
        assert said(await written.messages()) == said(HISTORY)
        await unwritten.undone(made[0])
        assert said(await unwritten.messages()) == said(HISTORY)
        await written.redone(made[1])
        assert said([e["message"] for e in await written.conversation()]) == said(HISTORY)
