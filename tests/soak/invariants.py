"""What must be so when everything has come to rest, whatever clients did and whoever was killed."""

from __future__ import annotations

import asyncio
import json
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from psycopg import AsyncConnection

from tests.soak.fleet import GRAPH, Fleet, Span, overlapping
from tests.soak.operations import Clients, Known, conversation
from tests.soak.walk import texts


@dataclass
class Rest:
    """A fleet that nobody asks for anything any more, and what its clients know."""

    fleet: Fleet
    clients: Clients
    database: AsyncConnection[Any]

    async def comes(self, seconds: float) -> list[str]:
        """Wait until no run is left to do. Returns those that still are after so long."""
        with_time = asyncio.get_running_loop().time() + seconds
        while open_runs := await self._rows(_OPEN):
            if asyncio.get_running_loop().time() > with_time:
                return [str(row) for row in open_runs]
            await asyncio.sleep(0.2)
        await self.clients.followed()
        return []

    async def problems(self) -> list[str]:
        """Everything that is not as it must be."""
        found = [*self.clients.problems, *self._overlaps(), *self.fleet.said("Traceback")]
        for check in (self._events, self._records, self._streams, self._reservations):
            found += await check()
        for known in self.clients.threads:
            found += [f"thread {known.id}: {problem}" for problem in await self._thread(known)]
        for known in self.clients.gone:
            found += await self._gone(known)
        return found

    async def usable(self) -> list[str]:
        """Threads on which a run does not succeed or that cannot be compacted."""
        found = await asyncio.gather(*(self._usable(known) for known in self.clients.threads))
        return [problem for problem in found if problem]

    async def taken_over(self) -> int:
        """How many runs there are that a killed worker had begun."""
        return int((await self._rows(_TAKEN_OVER))[0]["n"])

    def spans(self) -> list[Span]:
        lines = [json.loads(line) for line in self.fleet.record.read_text().splitlines()]
        return [*_spans(lines, self.fleet.killed)]

    def _overlaps(self) -> list[str]:
        return [f"two at once: {one} and {two}" for one, two in overlapping(self.spans())]

    async def _events(self) -> list[str]:
        return [f"events: {row}" for row in await self._rows(BAD_EVENTS)]

    async def _records(self) -> list[str]:
        for known in self.clients.threads:
            await self.fleet.replicas[0].get(f"/threads/{known.id}/compactions")
        return [f"undecided: {row}" for row in await self._rows(_COMMITTING)]

    async def _reservations(self) -> list[str]:
        return [f"still held: {row}" for row in await self._rows(_HELD)]

    async def _streams(self) -> list[str]:
        """What clients read of streams is every id once, in order."""
        return [
            f"stream of run {run_id}: {seen}"
            for run_id, seen in self.clients.streams.items()
            if seen != [*range(1, len(seen) + 1)]
        ]

    async def _thread(self, known: Known) -> list[str]:
        shown = (await self.fleet.replicas[1].get(f"/threads/{known.id}")).json()
        entries = await conversation(self.fleet.replicas[1], known.id)
        runs = {str(row["run_id"]): row for row in await self._rows(_RUNS, known.id)}
        live = [entry["message"] for entry in entries if not entry["archived"]]
        # A run that was cancelled in the middle leaves its thread there, to go on from: that is interrupted.
        problems = [] if shown["status"] in ("idle", "interrupted") else [f"is {shown['status']}"]
        if texts(live) != texts(shown["values"].get("messages") or [] if shown["values"] else []):
            problems.append("what is not archived is not what the state holds")
        return [*problems, *_lost(known, entries, runs), *_strange(known, entries)]

    async def _gone(self, known: Known) -> list[str]:
        answer = await self.fleet.replicas[0].get(f"/threads/{known.id}")
        left = await self._rows(_LEFT, known.id)
        return [f"deleted thread {known.id} is there: {answer.status_code} {left}"] * (
            answer.status_code != 404 or left[0]["n"] != 0
        )

    async def _usable(self, known: Known) -> str:
        body = {"assistant_id": GRAPH, "input": {"messages": [{"role": "user", "content": "Still there?"}]}}
        answered = await self.fleet.replicas[0].post(f"/threads/{known.id}/runs/wait", json=body, timeout=60)
        last = (answered.json().get("messages") or [{}])[-1]
        if last.get("type") != "ai":
            return f"thread {known.id} does not answer: {answered.text[:300]}"
        compacted = await self.fleet.replicas[1].post(
            f"/threads/{known.id}/compact", json={"keep": {"type": "messages", "value": 1}}
        )
        return "" if compacted.status_code == 200 else f"thread {known.id} is not compacted: {compacted.text}"

    async def _rows(self, query: bytes, *parameters: Any) -> Sequence[Mapping[str, Any]]:
        return await (await self.database.execute(query, parameters)).fetchall()


def _lost(
    known: Known, entries: Sequence[Mapping[str, Any]], runs: Mapping[str, Mapping[str, Any]]
) -> Iterator[str]:
    """Messages that were acknowledged and are not there, or the other way round."""
    ids = [entry["message"]["id"] for entry in entries]
    for message_id in (*known.base, *known.written):
        if message_id not in ids:
            yield f"message {message_id} is lost"
    for message_id, run_id in known.asked.items():
        run = runs.get(run_id)
        match run and run["status"], message_id in ids:
            case None, True:
                yield f"question {message_id} of a run that was rolled back is there"
            case "success", False:
                yield f"question {message_id} of run {run_id} is lost"
            case "success", True if entries[ids.index(message_id) + 1 :][:1] == []:
                yield f"question {message_id} of run {run_id} has no answer"
            case "success", True if entries[ids.index(message_id) + 1]["message"]["type"] != "ai":
                yield f"question {message_id} of run {run_id} has no answer behind it"
            case "interrupted", False if run and run["stored"]:
                yield f"question {message_id} of run {run_id}, which was interrupted, is lost"
            case (("pending" | "running" | "error" | "timeout"), _):
                yield f"run {run_id} is {run}"


def _strange(known: Known, entries: Sequence[Mapping[str, Any]]) -> Iterator[str]:
    """Messages that are there twice, or that nobody put there."""
    for message_id, count in Counter(entry["message"]["id"] for entry in entries).items():
        if count > 1:
            yield f"message {message_id} is there {count} times"
    mine = {*known.base, *known.tried}
    for entry in entries:
        message = entry["message"]
        if message["type"] == "human" and message["id"] not in mine:
            yield f"message {message['id']} is of another thread"


def _spans(lines: Sequence[Mapping[str, Any]], killed: Mapping[int, float]) -> Iterator[Span]:
    begun: dict[tuple[Any, ...], float] = {}
    for line in lines:
        key = (line["thread"], line["run"], line["attempt"], line["pid"])
        if line["what"] == "enter":
            begun[key] = line["at"]
        else:
            yield Span(*key[:3], begin=begun.pop(key), end=line["at"])
    for key, begin in begun.items():
        yield Span(*key[:3], begin=begin, end=killed.get(key[3], float("inf")))


_OPEN = b"SELECT run_id::text, thread_id, status, attempt, worker FROM runs WHERE status IN ('pending', 'running')"
BAD_EVENTS = b"""
SELECT r.run_id::text, r.status, r.attempt, count(e.seq) AS n, min(e.seq) AS first, max(e.seq) AS last,
       count(*) FILTER (WHERE e.event = 'end') AS ends,
       (array_agg(e.event ORDER BY e.seq DESC))[1] AS closing, (array_agg(e.event ORDER BY e.seq))[1] AS opening
FROM runs r LEFT JOIN run_events e USING (run_id) GROUP BY r.run_id
HAVING count(e.seq) <> coalesce(max(e.seq), 0) OR min(e.seq) <> 1 OR count(e.seq) = 0
    OR count(*) FILTER (WHERE e.event = 'end') <> 1 OR (array_agg(e.event ORDER BY e.seq DESC))[1] <> 'end'
    OR (r.status = 'success' AND (array_agg(e.event ORDER BY e.seq))[1] <> 'metadata')
"""
_COMMITTING = (
    b"SELECT thread_id, compaction_id::text, kind, run_id::text FROM compactions WHERE status = 'committing'"
)
_HELD = b"SELECT thread_id, reserved_until FROM threads WHERE reserved_until > now()"
_TAKEN_OVER = b"SELECT count(*) AS n FROM runs WHERE attempt > 1"
_RUNS = b"""
SELECT r.run_id, r.status, r.attempt, r.error, EXISTS (
    SELECT 1 FROM checkpoints c WHERE c.thread_id = r.thread_id AND c.metadata->>'run_id' = r.run_id::text
      AND c.metadata->>'source' <> 'input') AS stored
FROM runs r WHERE r.thread_id = %s
"""
_LEFT = b"SELECT count(*) AS n FROM checkpoints WHERE thread_id = %s"
