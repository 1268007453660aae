"""The title of a thread, over HTTP."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import pytest

from app.services.runs.graph_events import STREAM_MODES
from tests.support.answers import Behaviour, Fail, Hang, Reply, Request
from tests.support.gateway import Gateway, serving
from tests.support.rig import SMALL, Rig, rigged
from tests.support.threads import Thread, is_title_call, new_thread

TITLE = "Forty beds and their seeds"
QUESTION = "Please plan my garden with forty beds, and tell me which seeds to order for it by Monday"
FROM_QUESTION = "Please plan my garden with forty beds, and tell me which…"


@pytest.fixture
async def rig(tmp_path: Path, database_template: str) -> AsyncIterator[Rig]:
    title = {"enabled": True, "model_name": "small"}
    async with rigged(tmp_path, database_template, SMALL, ("main", "small"), title=title) as rig:
        yield rig


def titling(rig: Rig, behaviour: Behaviour) -> None:
    rig.provider.when(is_title_call, behaviour)


def title_calls(rig: Rig) -> list[Request]:
    return [request for request in rig.provider.chats if is_title_call(request)]


async def title_of(thread: Thread) -> Any:
    return (await thread.values()).get("title")


async def test_a_model_names_the_thread_once_after_the_first_exchange(rig: Rig) -> None:
    titling(rig, Reply(TITLE))
    async with new_thread(rig.gateway) as thread:
        await thread.run(QUESTION)
        assert await title_of(thread) == TITLE
        await thread.run("and what else?")
        assert await title_of(thread) == TITLE
    (call,) = title_calls(rig)
    assert call.body["model"] == "small"
    assert QUESTION in call.text


async def test_without_a_name_the_model_of_the_run_writes_it(tmp_path: Path, database_template: str) -> None:
    async with (
        rigged(tmp_path, database_template, SMALL, ("main", "other"), title={"enabled": True}) as rig,
        new_thread(rig.gateway) as thread,
    ):
        titling(rig, Reply(TITLE))
        await thread.run(QUESTION, context={"model_name": "other"})
        assert await title_of(thread) == TITLE
        assert [call.body["model"] for call in title_calls(rig)] == ["other"]


def texts(value: Any) -> Iterator[str]:
    match value:
        case str():
            yield value
        case dict():
            for name, inner in value.items():
                if name != "title":
                    yield from texts(inner)
        case list():
            for inner in value:
                yield from texts(inner)


@pytest.mark.parametrize("subgraphs", [False, True])
async def test_no_token_of_it_reaches_a_client_but_as_the_title(rig: Rig, subgraphs: bool) -> None:
    titling(rig, Reply(TITLE))
    async with new_thread(rig.gateway) as thread:
        parts = await thread.run(QUESTION, modes=STREAM_MODES, stream_subgraphs=subgraphs)
    assert not any(call.stream for call in title_calls(rig))
    leaked = [part.event for part in parts if any("Forty beds" in text for text in texts(part.data))]
    assert leaked == []
    updates = [part.data for part in parts if part.event == "updates"]
    assert [update["model"]["title"] for update in updates if "model" in update] == [TITLE]
    assert "conversation_opening" not in json.dumps([part.data for part in parts])


@pytest.mark.parametrize(
    "behaviour",
    [Fail(500, "down"), Fail(401, "no"), Reply(""), Reply("I'm sorry, but I can't help with that."), Hang()],
    ids=["500", "401", "blank", "refusal", "silence"],
)
async def test_a_title_that_fails_is_made_from_the_question_and_hardly_delays_the_run(
    rig: Rig, behaviour: Behaviour
) -> None:
    titling(rig, behaviour)
    async with new_thread(rig.gateway) as thread:
        async with asyncio.timeout(20):
            await thread.run(QUESTION)
        assert await title_of(thread) == FROM_QUESTION
        (run,) = await thread.client.runs.list(thread.id)
        assert run["status"] == "success"
        await thread.run("once more")
        assert await title_of(thread) == FROM_QUESTION
    # One that would keep the run waiting is given up, on a busy machine before it was even sent.
    assert len(title_calls(rig)) <= 1


async def test_a_run_that_fails_leaves_no_title_and_the_next_one_makes_it(rig: Rig) -> None:
    titling(rig, Reply(TITLE))
    rig.agent(Fail(401, "no"))
    async with new_thread(rig.gateway) as thread:
        await thread.run(QUESTION)
        assert await title_of(thread) is None
        rig.agent(Reply())
        await thread.run("again, please")
        assert await title_of(thread) == TITLE


async def test_what_the_title_cost_is_counted_with_the_run(rig: Rig) -> None:
    titling(rig, Reply(TITLE, usage=(70, 7)))
    async with new_thread(rig.gateway) as thread:
        await thread.run(QUESTION)
        async with rig.gateway.core.database.pool.connection() as conn:
            cursor = await conn.execute("SELECT usage FROM runs WHERE thread_id = %s", (thread.id,))
            (row,) = await cursor.fetchall()
    assert row["usage"]["small"]["input_tokens"] == 70


async def test_without_a_language_model_the_question_gives_it(gateway: Gateway) -> None:
    async with new_thread(gateway) as thread:
        await thread.run(f"\n## {QUESTION}\nmore")
        assert await title_of(thread) == FROM_QUESTION


async def test_a_person_renames_a_thread_before_or_after_and_keeps_the_name(gateway: Gateway) -> None:
    client = gateway.client()
    async with new_thread(gateway) as named_first, new_thread(gateway) as named_later:
        await client.threads.update_state(named_first.id, {"title": "Mine"})
        await named_first.run("hello")
        await named_later.run("hello")
        assert await title_of(named_later) == "hello"
        await client.threads.update_state(named_later.id, {"title": "Mine too"})
        await named_later.run("hello again")
        assert [await title_of(thread) for thread in (named_first, named_later)] == ["Mine", "Mine too"]
        state = await named_later.state()
        assert state["next"] == []


async def test_threads_are_found_by_title_and_show_it(gateway: Gateway) -> None:
    client = gateway.client()
    async with new_thread(gateway) as thread, new_thread(gateway) as other:
        await thread.run("plan the garden")
        await other.run("write a poem")
        (found,) = await client.threads.search(values={"title": "plan the garden"})
        assert (found["thread_id"], found["values"]["title"]) == (thread.id, "plan the garden")
        assert await client.threads.count(values={"title": "nothing"}) == 0


async def test_titles_can_be_switched_off(tmp_path: Path, database_url: str) -> None:
    async with (
        serving(tmp_path, database_url, {"title": {"enabled": False}}) as gateway,
        new_thread(gateway) as thread,
    ):
        await thread.run("hello")
        assert await title_of(thread) is None
