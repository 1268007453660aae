"""Graphs of one's own, hosted: what they are made from, what runs of them get, what threads of them can do."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio

from tests.support.gateway import Gateway, serving
from tests.support.postgres import clone

pytestmark = pytest.mark.asyncio(loop_scope="module")

FOLDER = Path(__file__).parents[1] / "data" / "graphs"
NAMES = (
    "compiled",
    "builder",
    "sums",
    "appended",
    "plain",
    "by_config",
    "held_open",
    "held_for_a_run",
    "asking",
    "remembering",
    "miscounting",
    "checked",
    "measuring",
)


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def gateway(tmp_path_factory: pytest.TempPathFactory, database_template: str) -> AsyncIterator[Gateway]:
    graphs = {name: f"{FOLDER / 'chat.py'}:{name}" for name in NAMES}
    folder = tmp_path_factory.mktemp("graphs")
    async with (
        clone(database_template) as url,
        serving(folder, url, {"agents": [], "graphs": graphs}) as served,
    ):
        yield served


def said(values: Any) -> str:
    return values["messages"][-1]["content"]  # type: ignore[no-any-return]


async def new_thread(gateway: Gateway, graph: str | None = None) -> str:
    async with gateway.client() as client:
        metadata = {"graph_id": graph} if graph else {}
        return (await client.threads.create(metadata=metadata))["thread_id"]


async def ask(gateway: Gateway, graph: str, text: str = "Hello", **options: Any) -> Any:
    """The values after a question on a new thread, or on ``thread``."""
    async with gateway.client() as client:
        thread = options.pop("thread", None) or await new_thread(gateway)
        given = options.pop("given", {"messages": [{"role": "user", "content": text}]})
        return await client.runs.wait(thread, graph, input=given, **options)


@pytest.mark.parametrize("graph", ["compiled", "builder", "held_open"])
async def test_a_graph_a_builder_and_a_factory_run_alike(gateway: Gateway, graph: str) -> None:
    thread = await new_thread(gateway)
    await ask(gateway, graph, "One", thread=thread)
    values = await ask(gateway, graph, "Two", thread=thread)
    assert said(values).startswith("[none] shown: One | [none]")
    assert said(values).endswith("Two")
    assert values["turns"] == 2


async def test_context_reaches_the_graph_in_its_own_form(gateway: Gateway) -> None:
    assert said(await ask(gateway, "compiled", context={"tone": "formal"})).startswith("[formal]")


async def test_a_model_name_that_only_the_graph_knows_is_its_own_affair(gateway: Gateway) -> None:
    values = await ask(gateway, "by_config", config={"configurable": {"model_name": "theirs", "word": "yes"}})
    assert said(values) == "the word is yes"


async def test_a_factory_with_config_makes_a_graph_for_each_run(gateway: Gateway) -> None:
    thread = await new_thread(gateway)
    first = await ask(gateway, "by_config", thread=thread, config={"configurable": {"word": "tree"}})
    second = await ask(gateway, "by_config", thread=thread, config={"configurable": {"word": "bush"}})
    assert (said(first), said(second)) == ("the word is tree", "the word is bush")


async def test_what_a_factory_holds_open_is_open_while_the_run_lasts(gateway: Gateway) -> None:
    assert said(await ask(gateway, "held_for_a_run")) == "open: True"


async def test_a_state_without_messages_works_but_for_compaction_and_context(gateway: Gateway) -> None:
    thread = await new_thread(gateway)
    await ask(gateway, "sums", thread=thread, given={"numbers": [1, 2]})
    values = await ask(gateway, "sums", thread=thread, given={"numbers": [3]})
    assert values == {"numbers": [1, 2, 3], "total": 6}
    async with gateway.http() as http, gateway.client() as client:
        await client.threads.update_state(thread, {"numbers": [4]})
        assert (await client.threads.get_state(thread))["values"]["numbers"] == [1, 2, 3, 4]
        assert len(await client.threads.get_history(thread)) > 2
        for answer in (
            await http.post(f"/threads/{thread}/compact", json={}),
            await http.get(f"/threads/{thread}/context"),
        ):
            assert answer.status_code == 409, answer.text
            assert answer.json()["code"] == "not_compactable"
            assert "'sums' cannot be compacted: its state has no `messages`" in answer.json()["detail"]


async def test_a_key_that_the_state_does_not_have_is_refused(gateway: Gateway) -> None:
    async with gateway.http() as http:
        thread = await new_thread(gateway)
        body = {"assistant_id": "sums", "input": {"figures": [1]}}
        answer = await http.post(f"/threads/{thread}/runs/wait", json=body)
        assert answer.status_code == 422
        assert "input.figures: the state has no such key; known: numbers, total" in answer.json()["detail"]


async def test_a_question_inside_a_subgraph_is_answered(gateway: Gateway) -> None:
    thread = await new_thread(gateway)
    asked = await ask(gateway, "asking", thread=thread)
    assert asked["__interrupt__"][0]["value"] == {"question": "Which colour?"}
    async with gateway.client() as client:
        assert (await client.threads.get(thread))["status"] == "interrupted"
        state = await client.threads.get_state(thread, subgraphs=True)
        assert state["tasks"][0]["state"]["next"] == ["ask"]  # type: ignore[index, call-overload]
        values = await client.runs.wait(thread, "asking", command={"resume": "green"})
    assert said(values) == "So green it is."


async def test_all_stream_modes_work(gateway: Gateway) -> None:
    modes = ["values", "updates", "messages-tuple", "tasks", "checkpoints", "custom", "debug"]
    async with gateway.client() as client:
        given = {"messages": [{"role": "user", "content": "Hello"}]}
        parts = [
            part
            async for part in client.runs.stream(
                await new_thread(gateway),
                "asking",
                input=given,
                stream_mode=modes,  # type: ignore[arg-type]
                stream_subgraphs=True,
            )
        ]
    events = {part.event.partition("|")[0] for part in parts}
    assert events >= {"values", "updates", "tasks", "checkpoints", "debug"}
    assert any(
        part.event.startswith("updates|inner:") or part.event.startswith("tasks|inner:") for part in parts
    )
    assert "error" not in events


async def test_items_of_the_store_are_seen_by_the_graph_and_by_the_owner(gateway: Gateway) -> None:
    async with gateway.client() as client:
        await client.store.put_item(["plans", "garden"], "beds", {"count": 40})
        values = await ask(gateway, "remembering", "a note")
        item = await client.store.get_item(["notes"], "last")
        await client.store.delete_item(["plans", "garden"], "beds")
        await client.store.delete_item(["notes"], "last")
    assert item["value"] == {"text": "a note"}
    assert "plans/garden:beds" in said(values) and "notes:last" in said(values)


@pytest.mark.parametrize(
    "breaking", [{"messages": [{"role": "user", "content": "break"}]}, {"count": "x"}], ids=["node", "input"]
)
async def test_a_reducer_that_raises_ends_the_run_and_spoils_nothing_else(
    gateway: Gateway, breaking: dict[str, Any]
) -> None:
    thread = await new_thread(gateway)
    await ask(gateway, "miscounting", thread=thread)
    failed = await ask(gateway, "miscounting", thread=thread, given=breaking, raise_error=False)
    assert failed["__error__"]["error"] == "TypeError"
    async with gateway.http() as http:
        shown = (await http.get(f"/threads/{thread}")).json()
        assert (shown["status"], shown["values"]["count"]) == ("error", 1)
        for method, path in (
            ("GET", f"/threads/{thread}/state"),
            ("POST", f"/threads/{thread}/history"),
            ("GET", f"/threads/{thread}/context"),
            ("POST", f"/threads/{thread}/compact"),
            ("POST", "/threads/search"),
        ):
            answer = await http.request(method, path, json={} if method == "POST" else None)
            assert answer.status_code == 200, (path, answer.text)
    values = await ask(gateway, "miscounting", "again", thread=thread)
    assert (said(values), values["count"]) == ("done", 2)


async def test_a_state_that_is_nothing_without_its_messages_waits_as_any_other(gateway: Gateway) -> None:
    thread = await new_thread(gateway)
    await ask(gateway, "checked", thread=thread, interrupt_before=["second"])
    async with gateway.client() as client:
        assert (await client.threads.get(thread))["status"] == "interrupted"
        await client.runs.wait(thread, "checked", input=None)
        ended = await client.threads.get(thread)
    assert (ended["status"], ended["values"]["turns"]) == ("idle", 2)


async def test_scalars_that_json_cannot_hold_are_kept_and_read(gateway: Gateway) -> None:
    thread = await new_thread(gateway)
    values = await ask(gateway, "measuring", thread=thread)
    assert (said(values), values["text"], values["share"]) == ("measured", "a\0b", None)
    async with gateway.http() as http:
        more = {"values": {"messages": [{"role": "user", "content": "More"}]}}
        assert (await http.post(f"/threads/{thread}/state", json=more)).status_code == 200
        copy = (await http.post(f"/threads/{thread}/copy")).json()["thread_id"]
        for place in (thread, copy):
            state = (await http.get(f"/threads/{place}/state")).json()["values"]
            assert (state["text"], said(state)) == ("a\0b", "More")


async def test_each_graph_has_an_assistant(gateway: Gateway) -> None:
    async with gateway.client() as client:
        found = await client.assistants.search(limit=100)
        assert {assistant["graph_id"] for assistant in found} == set(NAMES)
        by_id = await client.assistants.get(next(a for a in found if a["name"] == "sums")["assistant_id"])
    assert by_id["graph_id"] == "sums"


async def test_without_agents_the_first_graph_is_the_default(gateway: Gateway) -> None:
    graphs = gateway.core.services.graphs
    assert graphs.default == graphs.names[0] == min(NAMES)
