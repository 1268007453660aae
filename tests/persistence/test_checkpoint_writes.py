"""What an executing run writes is, row for row, what LangGraph's own saver would write."""

from __future__ import annotations

import math
import uuid
from collections.abc import Sequence
from typing import Any

import pytest
from langchain_core.messages import AIMessage, HumanMessage
from langgraph.checkpoint.base import ERROR, INTERRUPT, RESUME, empty_checkpoint
from langgraph.checkpoint.postgres.aio import AsyncPostgresSaver
from langgraph.checkpoint.serde.types import _DeltaSnapshot

from app.persistence.admission import Admissions, NewRun
from app.persistence.checkpoint_writes import LARGE
from app.persistence.checkpoints import ATTEMPT_KEY, ThreadSaver
from app.persistence.rollback import input_task
from app.persistence.runs import RunStore
from app.persistence.threads import ThreadStore

OURS, THEIRS = "ours", "theirs"
RUN = str(uuid.uuid4())
# Part of the name of a test: it has to be the same in every process that collects it.
PARENT = "1f0c9a52-6f0e-6c1b-8000-5d1f3c7e2a90"
MESSAGES = [HumanMessage("a question", id="1"), AIMessage("an answer \0 with a NUL", id="2")]
VALUES: Sequence[dict[str, Any]] = (
    {},
    {"messages": MESSAGES},
    {"text": "plain", "count": 3, "share": 0.5, "yes": True, "no": False, "nothing": None},
    {"messages": _DeltaSnapshot(MESSAGES), "summary_text": "of before", "compaction": {"compaction_id": "c"}},
    {
        "messages": [HumanMessage(str(number), id=str(number)) for number in range(LARGE + 1)],
        "other": [],
        "more": {},
    },
)


@pytest.fixture
async def savers(database: Any) -> dict[str, tuple[Any, dict[str, Any]]]:
    """By thread: a saver, and what a configuration names beside the thread. Ours executes a run."""

    async def unused(*_: Any) -> None:
        """No checkpoint here is the first of a compaction that has a record."""

    await ThreadStore(database.pool).create(OURS, "", {})
    async with Admissions(database.pool).look(OURS, "", create=False) as admission:
        assert admission
        await admission.insert(NewRun(RUN, "agent", {}, {}, "enqueue", {}))
    assert await RunStore(database.pool).claim(RUN, "worker")
    return {
        OURS: (ThreadSaver(database.pool, unused), {ATTEMPT_KEY: 1}),
        THEIRS: (AsyncPostgresSaver(database.pool), {}),
    }


def _config(thread_id: str, more: dict[str, Any], checkpoint_id: str | None, ns: str = "") -> Any:
    place = {"thread_id": thread_id, "checkpoint_ns": ns, "run_id": RUN, **more}
    return {"configurable": {**place, "checkpoint_id": checkpoint_id} if checkpoint_id else place}


@pytest.mark.parametrize("values", VALUES, ids=lambda values: ",".join(values) or "nothing")
@pytest.mark.parametrize(("ns", "parent"), [("", None), ("helper:1", PARENT)])
async def test_a_checkpoint_is_stored_as_langgraph_stores_it(
    savers: dict[str, tuple[Any, dict[str, Any]]],
    database: Any,
    values: dict[str, Any],
    ns: str,
    parent: str | None,
) -> None:
    versions = {name: f"{number:032}.1" for number, name in enumerate([*values, "without a value"])}
    checkpoint: Any = {**empty_checkpoint(), "channel_values": values, "channel_versions": versions}
    for thread_id, (saver, more) in savers.items():
        stored = await saver.aput(
            _config(thread_id, more, parent, ns), checkpoint, {"source": "loop", "step": 1}, versions
        )
        assert stored == {
            "configurable": {"thread_id": thread_id, "checkpoint_ns": ns, "checkpoint_id": checkpoint["id"]}
        }
        # Written again, as after a lost answer.
        await saver.aput(
            _config(thread_id, more, parent, ns), checkpoint, {"source": "loop", "step": 1}, versions
        )
    assert checkpoint["channel_values"] == values
    for table in ("checkpoints", "checkpoint_blobs"):
        assert await _rows(database, table, OURS) == await _rows(database, table, THEIRS)
    read = await savers[THEIRS][0].aget_tuple(_config(OURS, {}, None, ns))
    assert read.checkpoint["channel_values"] == values


@pytest.mark.parametrize("executes", [True, False])
async def test_scalars_that_json_in_postgresql_cannot_hold_are_stored_beside_it(
    savers: dict[str, tuple[Any, dict[str, Any]]], executes: bool
) -> None:
    saver, more = savers[OURS]
    values = {"nul": "a\0b", "half": "x\ud800", "endless": math.inf, "fine": "ä😀", "share": 0.5}
    versions = dict.fromkeys(values, f"{1:032}.1")
    checkpoint: Any = {**empty_checkpoint(), "channel_values": values, "channel_versions": versions}
    config = _config(OURS, more if executes else {}, None)
    await saver.aput(config, checkpoint, {"source": "loop", "step": 1}, versions)
    later: Any = {**checkpoint, **{"id": empty_checkpoint()["id"]}}
    await saver.aput(config, later, {"source": "loop", "step": 2}, {})
    read = await savers[THEIRS][0].aget_tuple(_config(OURS, {}, later["id"]))
    assert read.checkpoint["channel_values"] == {**values, "half": "x?"}


@pytest.mark.parametrize(
    "batches",
    [
        [("task", [("messages", MESSAGES), ("text", "plain")])],
        [("task", [("messages", "first"), ("text", 1)]), ("task", [("messages", "second")])],
        [("task", [(INTERRUPT, "asked"), (RESUME, "one")]), ("task", [(RESUME, "two")])],
        [("task", [(ERROR, "first")]), ("task", [(ERROR, "second")])],
        [("task", [("messages", "first"), (ERROR, "x")]), ("task", [("messages", "second"), (ERROR, "y")])],
        [
            ("a", [("messages", [])]),
            ("b", [("messages", [HumanMessage("x", id=str(n)) for n in range(LARGE + 1)])]),
        ],
    ],
    ids=["values", "the first stay", "own channels", "errors", "mixed", "large"],
)
async def test_what_a_task_gave_is_stored_as_langgraph_stores_it(
    savers: dict[str, tuple[Any, dict[str, Any]]],
    database: Any,
    batches: list[tuple[str, list[tuple[str, Any]]]],
) -> None:
    checkpoint_id = str(uuid.uuid4())
    for thread_id, (saver, more) in savers.items():
        for task, writes in batches:
            await saver.aput_writes(_config(thread_id, more, checkpoint_id), writes, task, "~path")
    ours = await _rows(database, "checkpoint_writes", OURS)
    assert ours == await _rows(database, "checkpoint_writes", THEIRS)
    assert ours


async def test_the_input_of_a_run_takes_the_place_of_one_that_was_cut_off(
    savers: dict[str, tuple[Any, dict[str, Any]]], database: Any
) -> None:
    checkpoint_id = str(uuid.uuid4())
    saver, more = savers[OURS]
    config = _config(OURS, more, checkpoint_id)
    task = input_task(checkpoint_id)
    await saver.aput_writes(config, [("messages", "another"), ("todos", "task's")], "other")
    await saver.aput_writes(config, [("messages", "of before"), ("todos", 1), ("files", 2)], task)
    await saver.aput_writes(config, [("messages", "of now"), ("text", 3)], task)
    kept = [
        (row["task_id"] == task, row["channel"], saver.serde.loads_typed((row["type"], row["blob"])))
        for row in await _rows(database, "checkpoint_writes", OURS)
    ]
    assert sorted(kept) == [
        (False, "messages", "another"),
        (False, "todos", "task's"),
        (True, "messages", "of now"),
        (True, "text", 3),
    ]


async def _rows(database: Any, table: str, thread_id: str) -> list[dict[str, Any]]:
    async with database.pool.connection() as conn:
        cursor = await conn.execute(f"SELECT * FROM {table} WHERE thread_id = %s", (thread_id,))
        rows = [{**row, "thread_id": None} for row in await cursor.fetchall()]
    for row in rows:
        # Who wrote it is said in the metadata, and only there.
        row.get("metadata", {}).pop(ATTEMPT_KEY, None)
    return sorted(rows, key=str)
