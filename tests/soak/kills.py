"""A process that is killed while it compacts, takes back and applies on five threads at once; where each kill hit."""

from __future__ import annotations

import asyncio
import random
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import httpx
from psycopg import AsyncConnection

from tests.soak.walk import texts
from tests.support.gateway import Gateway, serving
from tests.support.rig import PLAIN, SMALL
from tests.support.service import DEMO_MODEL, Process, config, running
from tests.support.threads import Message, Thread, new_thread, seen_from, talk

VICTIM = "victim"
Phase = Literal["asked", "archived", "stored", "noted"]
PHASES: tuple[Phase, ...] = ("asked", "archived", "stored", "noted")
"""Nothing is written; the archive and the record are; the state is, too; the record says that it happened."""

# How long it takes from the request to the first write, and how long to look at a process that has nothing to do.
ASKED_S, NOTED_S = 0.5, 0.1
SECTIONS = {
    **PLAIN,
    "summarization": SMALL,
    "models": [{**DEMO_MODEL, "summary_delay_s": 0.1}],
}
HISTORY = 24
QUESTION = "And now?"

# A database that takes its time with what the victim writes, so that a moment between two writes is not a rare one.
_SLOW_DATABASE = """
CREATE FUNCTION take_time() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF current_setting('application_name') = 'victim' THEN PERFORM pg_sleep(%s); END IF;
    RETURN NEW;
END $$;
CREATE TRIGGER slow_archive BEFORE INSERT ON compactions FOR EACH ROW EXECUTE FUNCTION take_time();
CREATE TRIGGER slow_state BEFORE INSERT ON checkpoints FOR EACH ROW
    WHEN (NEW.metadata ? 'compaction_id') EXECUTE FUNCTION take_time();
CREATE TRIGGER slow_note BEFORE UPDATE ON compactions FOR EACH ROW
    WHEN (OLD.status = 'committing' AND NEW.status = 'committed') EXECUTE FUNCTION take_time();
"""


@dataclass
class Attempt:
    """Something that the victim is asked to do on ``thread``, whose conversation was ``said`` before. ``known`` are
    the records of before; ``subject`` is the compaction or the draft that it is about."""

    name: str
    thread: Thread
    said: list[Message]
    known: list[tuple[str, str]]
    subject: str = ""
    run_id: str = ""
    hit: Phase = "asked"


class Scene:
    """The database, a witness that compacts nothing by itself, and victims one after the other.

    Each write of a victim's compaction takes ``slowness_s``. With ``abrupt`` nothing happens any more that a victim had
    sent to the database when it was killed; else that is left to chance.
    """

    def __init__(
        self,
        folder: Path,
        url: str,
        database: AsyncConnection[Any],
        seed: int,
        *,
        slowness_s: float = 0.05,
        abrupt: bool = False,
    ) -> None:
        self.chance = random.Random(seed)
        self._slowness_s = slowness_s
        self._abrupt = abrupt
        self._folder = folder
        self._url = url
        self._database = database
        self._count = 0
        self.witness: Gateway

    @asynccontextmanager
    async def observed(self) -> AsyncIterator[None]:
        await self._database.execute((_SLOW_DATABASE % self._slowness_s).encode())
        async with serving(self._new_folder(), self._url, SECTIONS, work=False) as self.witness:
            yield

    @asynccontextmanager
    async def worker(self) -> AsyncIterator[None]:
        """Somebody who finishes what runs are left."""
        async with serving(self._new_folder(), self._url, SECTIONS):
            yield

    @asynccontextmanager
    async def victim(self) -> AsyncIterator[Process]:
        marked = f"{self._url}&application_name={VICTIM}"
        async with running(self._new_folder(), config(**SECTIONS), database_url=marked) as process:
            yield process

    async def kill(self, victim: Process) -> None:
        victim.kill()
        await victim.process.wait()
        if self._abrupt or self.chance.random() < 0.5:
            await self._database.execute(
                "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = %s",
                (VICTIM,),
            )
        while (await self._one(_ALIVE, VICTIM))["n"]:
            await asyncio.sleep(0.01)

    async def phase(self, attempt: Attempt) -> Phase:
        """How far it has come, as the database has it."""
        rows = await (await self._database.execute(_RECORDS, (attempt.thread.id,))).fetchall()
        for row in rows:
            if (row["id"], row["status"]) in attempt.known or row["status"] not in (
                "committing",
                "committed",
            ):
                continue
            if row["status"] == "committed":
                return "noted" if row["id"] not in dict(attempt.known) or attempt.name == "apply" else "asked"
            return "stored" if row["stored"] else "archived"
        return "asked"

    async def comes_to(self, attempt: Attempt, phase: Phase) -> None:
        """Wait until it has come so far, and then until some moment before the next phase."""
        while PHASES.index(await self.phase(attempt)) < PHASES.index(phase):
            await asyncio.sleep(0.002)
        longest = {"asked": ASKED_S, "noted": NOTED_S}.get(
            phase, self._slowness_s / 2 if self._abrupt else self._slowness_s
        )
        await asyncio.sleep(self.chance.uniform(0, longest))

    async def records(self, thread: Thread) -> list[tuple[str, str]]:
        rows = await (await self._database.execute(_RECORDS, (thread.id,))).fetchall()
        return [(row["id"], row["status"]) for row in rows]

    async def time_passes(self, thread: Thread) -> None:
        """The dead process held the thread for half a minute at most."""
        held = await self._one(_HELD_FOR, thread.id)
        assert not held or held["s"] is None or held["s"] <= 30
        await self._database.execute(
            "UPDATE threads SET reserved_until = now() WHERE thread_id = %s", (thread.id,)
        )

    async def _one(self, query: str, *parameters: Any) -> Any:
        return await (await self._database.execute(query.encode(), parameters)).fetchone()

    def _new_folder(self) -> Path:
        self._count += 1
        folder = self._folder / f"process{self._count}"
        folder.mkdir()
        return folder


_ALIVE = "SELECT count(*) AS n FROM pg_stat_activity WHERE application_name = %s"
_HELD_FOR = "SELECT extract(epoch FROM reserved_until - now())::float8 AS s FROM threads WHERE thread_id = %s"
_RECORDS = b"""
SELECT c.compaction_id::text AS id, c.status, EXISTS (
    SELECT 1 FROM checkpoints k
    WHERE k.thread_id = c.thread_id AND k.metadata->'compaction_ids' ? c.compaction_id::text) AS stored
FROM compactions c WHERE c.thread_id = %s ORDER BY c.position DESC
"""


# What is prepared before the victim gets its request.


async def _nothing(thread: Thread) -> str:
    return ""


async def _drafted(thread: Thread) -> str:
    return str((await thread.compacted(dry_run="summary"))["compaction_id"])


async def _compacted(thread: Thread) -> str:
    return str((await thread.compacted())["compaction_id"])


async def _undone(thread: Thread) -> str:
    compaction_id = await _compacted(thread)
    await thread.undone(compaction_id, force=True)
    return compaction_id


async def applied(thread: Thread, draft: str) -> httpx.Response:
    return await thread.http.post(f"/threads/{thread.id}/compactions/{draft}/apply", json={})


ATTEMPTS: dict[str, Callable[[Thread], Awaitable[str]]] = {
    "manual": _nothing,
    "auto": _nothing,
    "apply": _drafted,
    "undo": _compacted,
    "redo": _undone,
}


async def prepared(stack: AsyncExitStack, scene: Scene, name: str) -> Attempt:
    thread = await stack.enter_async_context(new_thread(scene.witness, talk(HISTORY)))
    said = await thread.messages()
    subject = await ATTEMPTS[name](thread)
    return Attempt(name, thread, said, await scene.records(thread), subject)


async def ask(attempt: Attempt, victim: Process) -> None:
    """Whether the victim answers or not."""
    async with seen_from(victim, attempt.thread) as thread:
        with suppress(httpx.HTTPError):
            match attempt.name:
                case "manual":
                    await thread.compact()
                case "apply":
                    await applied(thread, attempt.subject)
                case "undo":
                    await thread.undo(attempt.subject, force=True)
                case "redo":
                    await thread.redo(attempt.subject)
                case "auto":
                    body = {
                        "assistant_id": "agent",
                        "input": {"messages": [{"role": "user", "content": QUESTION}]},
                    }
                    started = await thread.http.post(f"/threads/{thread.id}/runs", json=body)
                    attempt.run_id = started.json()["run_id"]


async def strike(scene: Scene, victim: Process, attempts: list[Attempt], target: str, phase: Phase) -> None:
    """Ask for everything at once and kill the victim at some moment of that phase of one of them. Notes in ``hit`` how
    far each had come."""
    calls = [asyncio.create_task(ask(attempt, victim)) for attempt in attempts]
    (aim,) = [attempt for attempt in attempts if attempt.name == target]
    await scene.comes_to(aim, phase)
    await scene.kill(victim)
    await asyncio.gather(*calls)
    for attempt in attempts:
        attempt.hit = await scene.phase(attempt)


async def is_whole(thread: Thread, said: list[Message]) -> None:
    entries = await thread.conversation(limit=100)
    assert texts([entry["message"] for entry in entries]) == texts(said)
    live = [entry["message"] for entry in entries if not entry["archived"]]
    assert texts(live) == texts(await thread.messages())


async def survived(scene: Scene, attempt: Attempt) -> None:
    """Nothing is lost and nothing doubled; it happened, or it can be asked for again; the next compaction works."""
    thread = attempt.thread
    await is_whole(thread, attempt.said)
    await scene.time_passes(thread)
    assert [record["status"] for record in await thread.records()] == _settled(attempt)
    happened = attempt.hit in ("stored", "noted")
    await {"manual": _manual, "apply": _apply, "undo": _undo, "redo": _redo}[attempt.name](attempt, happened)
    await is_whole(thread, attempt.said)
    await _goes_on(thread, attempt.said)


async def run_survived(scene: Scene, attempt: Attempt) -> None:
    """Somebody else finishes the run: the question is asked once and answered once."""
    thread = attempt.thread
    if not attempt.run_id:
        # Killed before it was told that there is a run: there may be one all the same.
        runs = await thread.client.runs.list(thread.id)
        attempt.run_id = runs[0]["run_id"] if runs else ""
    said = attempt.said
    if attempt.run_id:
        await thread.client.runs.join(thread.id, attempt.run_id)
        assert (await thread.client.runs.get(thread.id, attempt.run_id))["status"] == "success"
        said = [*said, *(await thread.messages())[-2:]]
        assert [said[-2]["content"], said[-1]["type"]] == [QUESTION, "ai"]
        statuses = [record["status"] for record in await thread.records()]
        assert statuses.count("committed") == 1, statuses
        assert "committing" not in statuses
    await is_whole(thread, said)
    await _goes_on(thread, said)


def _settled(attempt: Attempt) -> list[str]:
    """What records say when they are looked at next, newest first."""
    before = [status for _, status in attempt.known if status != "draft"]
    match attempt.hit, attempt.name:
        case "asked", _:
            return [status for _, status in attempt.known]
        case "archived", _:
            return ["failed", *before]
        case _, "undo":
            return ["committed", "undone"]
        case _, "redo":
            return ["committed", "undone", "committed"]
        case _:
            return ["committed", *before]


async def _manual(attempt: Attempt, happened: bool) -> None:
    again = await attempt.thread.compacted()
    assert again["compacted"] is not happened, again


async def _apply(attempt: Attempt, happened: bool) -> None:
    again = await applied(attempt.thread, attempt.subject)
    assert (again.status_code, again.json().get("code")) == (
        (409, "draft_applied") if happened else (200, None)
    )


async def _undo(attempt: Attempt, happened: bool) -> None:
    again = await attempt.thread.undo(attempt.subject, force=True)
    assert (again.status_code == 409) is happened, again.text
    assert texts(await attempt.thread.messages()) == texts(attempt.said)


async def _redo(attempt: Attempt, happened: bool) -> None:
    again = await attempt.thread.redo(attempt.subject)
    assert (again.status_code == 409) is happened, again.text
    assert len(await attempt.thread.messages()) < len(attempt.said)


async def _goes_on(thread: Thread, said: list[Message]) -> None:
    await thread.put(talk(6, start=500))
    more = (await thread.messages())[-12:]
    assert (await thread.compacted(keep={"type": "messages", "value": 2}))["compacted"]
    await is_whole(thread, [*said, *more])
