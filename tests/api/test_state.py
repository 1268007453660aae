"""State over HTTP, with the official client: read, write, fork, history."""

from __future__ import annotations

import asyncio
import uuid
from typing import Any

import httpx
import pytest
import pytest_asyncio
from langgraph_sdk.client import LangGraphClient
from langgraph_sdk.errors import ConflictError, NotFoundError

from tests.support.gateway import Gateway

HI = {"type": "human", "content": "hi", "id": "h1"}
YES = {"type": "ai", "content": "yes?", "id": "a1"}

pytestmark = pytest.mark.asyncio(loop_scope="module")


@pytest.fixture
def idle_gateway(shared_gateway: Gateway) -> Gateway:
    """Every test has a thread of its own, so one service does for all of them."""
    return shared_gateway


@pytest.fixture
def http(shared_http: httpx.AsyncClient) -> httpx.AsyncClient:
    return shared_http


@pytest_asyncio.fixture(loop_scope="module")
async def thread_id(client: LangGraphClient) -> str:
    return str((await client.threads.create())["thread_id"])


def contents(state: Any) -> list[Any]:
    return [message["content"] for message in state["values"]["messages"]]


async def test_a_thread_without_state_is_empty_and_has_no_checkpoint(
    client: LangGraphClient, thread_id: str
) -> None:
    state = await client.threads.get_state(thread_id)
    assert (state["values"], state["next"], state["tasks"]) == ({}, [], [])
    assert state["checkpoint"] is None
    assert await client.threads.get_history(thread_id) == []


@pytest.mark.parametrize("path", ["state", "state/x", "history"])
async def test_the_state_of_an_unknown_thread_is_not_found(http: httpx.AsyncClient, path: str) -> None:
    response = await http.get(f"/threads/{uuid.uuid4()}/{path}")
    assert response.status_code == 404
    assert response.json()["code"] == "not_found"


async def test_what_is_written_is_read_and_the_thread_stays_idle(
    client: LangGraphClient, thread_id: str
) -> None:
    written = await client.threads.update_state(thread_id, {"messages": [HI, YES]})
    state = await client.threads.get_state(thread_id)
    assert contents(state) == ["hi", "yes?"]
    assert state["next"] == []
    assert state["checkpoint"]["checkpoint_id"] == written["checkpoint"]["checkpoint_id"]
    assert state["checkpoint"]["thread_id"] == thread_id
    thread = await client.threads.get(thread_id)
    assert thread["status"] == "idle"
    assert contents(thread) == ["hi", "yes?"]
    assert thread["state_updated_at"] > thread["created_at"]


async def test_a_write_answers_with_the_checkpoint_in_every_form_clients_read(
    http: httpx.AsyncClient, thread_id: str
) -> None:
    written = (await http.post(f"/threads/{thread_id}/state", json={"values": {"messages": [HI]}})).json()
    place = {"thread_id": thread_id, "checkpoint_ns": "", "checkpoint_id": written["checkpoint_id"]}
    assert written["configurable"] == place
    assert written["checkpoint"] == {**place, "checkpoint_map": None}


async def test_a_message_with_a_known_id_is_replaced_and_a_removal_removes(
    client: LangGraphClient, thread_id: str
) -> None:
    await client.threads.update_state(thread_id, {"messages": [HI, YES]})
    await client.threads.update_state(thread_id, {"messages": [{**HI, "content": "hello"}]})
    await client.threads.update_state(thread_id, {"messages": [{"type": "remove", "id": "a1"}]})
    assert contents(await client.threads.get_state(thread_id)) == ["hello"]


async def test_a_list_of_values_is_written_in_order_as_steps_of_their_own(
    client: LangGraphClient, thread_id: str
) -> None:
    await client.threads.update_state(thread_id, [{"messages": [HI]}, {"messages": [YES]}])
    history = await client.threads.get_history(thread_id)
    assert [contents(state) for state in history] == [["hi", "yes?"], ["hi"]]


async def test_no_values_change_nothing_but_the_checkpoint(client: LangGraphClient, thread_id: str) -> None:
    first = await client.threads.update_state(thread_id, {"messages": [HI]})
    second = await client.threads.update_state(thread_id, None)
    assert second["checkpoint"]["checkpoint_id"] != first["checkpoint"]["checkpoint_id"]
    assert contents(await client.threads.get_state(thread_id)) == ["hi"]


async def test_an_old_checkpoint_can_be_read_and_forked_from(client: LangGraphClient, thread_id: str) -> None:
    first = await client.threads.update_state(thread_id, {"messages": [HI]})
    await client.threads.update_state(thread_id, {"messages": [YES]})
    old = first["checkpoint"]
    assert contents(await client.threads.get_state(thread_id, checkpoint=old)) == ["hi"]
    assert contents(await client.threads.get_state(thread_id, checkpoint_id=old["checkpoint_id"])) == ["hi"]

    other = {"type": "ai", "content": "no.", "id": "a2"}
    await client.threads.update_state(thread_id, {"messages": [other]}, checkpoint=old)
    assert contents(await client.threads.get_state(thread_id)) == ["hi", "no."]
    await client.threads.update_state(thread_id, {"messages": []}, checkpoint_id=old["checkpoint_id"])
    assert contents(await client.threads.get_state(thread_id)) == ["hi"]


async def test_history_is_newest_first_and_pages_by_before(client: LangGraphClient, thread_id: str) -> None:
    for number in range(5):
        await client.threads.update_state(thread_id, {"messages": [{**HI, "id": f"h{number}"}]})
    history = await client.threads.get_history(thread_id)
    assert [len(state["values"]["messages"]) for state in history] == [5, 4, 3, 2, 1]
    assert history[0]["parent_checkpoint"] == history[1]["checkpoint"]
    assert history[-1]["parent_checkpoint"] is None

    page = await client.threads.get_history(thread_id, limit=2, before=history[1]["checkpoint"])
    assert page == history[2:4]
    before_id = history[3]["checkpoint"]["checkpoint_id"]
    assert await client.threads.get_history(thread_id, before=before_id) == history[4:]


async def test_history_takes_before_as_a_config_and_over_get(
    http: httpx.AsyncClient, client: LangGraphClient, thread_id: str
) -> None:
    for number in range(3):
        await client.threads.update_state(thread_id, {"messages": [{**HI, "id": f"h{number}"}]})
    history = await client.threads.get_history(thread_id)
    middle = history[1]["checkpoint"]
    config = {"before": {"configurable": {**middle, "assistant_id": "agent"}}}
    by_config = await http.post(f"/threads/{thread_id}/history", json=config)
    by_query = await http.get(
        f"/threads/{thread_id}/history", params={"before": middle["checkpoint_id"], "limit": 5}
    )
    assert by_config.json() == by_query.json() == history[2:]


async def test_history_can_be_filtered_by_metadata(client: LangGraphClient, thread_id: str) -> None:
    await client.threads.update_state(thread_id, {"messages": [HI]})
    assert len(await client.threads.get_history(thread_id, metadata={"source": "update"})) == 1
    assert await client.threads.get_history(thread_id, metadata={"source": "loop"}) == []


async def test_only_selected_fields_are_shown(
    client: LangGraphClient, http: httpx.AsyncClient, thread_id: str
) -> None:
    await client.threads.update_state(thread_id, {"messages": [HI]})
    state = await client.threads.get_state(thread_id, select=["next", "values.messages", "values.nothing"])
    assert state.keys() == {"next", "values"}
    assert contents(state) == ["hi"]
    [past] = await client.threads.get_history(thread_id, select=["checkpoint"])
    assert past.keys() == {"checkpoint"}
    joined = await http.get(f"/threads/{thread_id}/state", params={"select": "next,values"})
    assert joined.json().keys() == {"next", "values"}


async def test_writing_as_a_node_leaves_the_thread_waiting_for_the_next(
    client: LangGraphClient, thread_id: str
) -> None:
    await client.threads.update_state(thread_id, {"messages": [HI]}, as_node="__start__")
    assert (await client.threads.get_state(thread_id))["next"]
    assert (await client.threads.get(thread_id))["status"] == "interrupted"
    await client.threads.update_state(thread_id, None, as_node="__end__")
    assert (await client.threads.get(thread_id))["status"] == "idle"


async def test_a_write_is_refused_while_a_run_is_open(client: LangGraphClient, thread_id: str) -> None:
    await client.threads.update_state(thread_id, {"messages": [HI]})
    run = await client.runs.create(thread_id, "agent", input={"messages": [HI]})
    with pytest.raises(ConflictError, match="pending or running") as refused:
        await client.threads.update_state(thread_id, {"messages": [YES]})
    assert refused.value.code == "thread_busy"
    assert contents(await client.threads.get_state(thread_id)) == ["hi"]
    await client.runs.cancel(thread_id, run["run_id"])
    await client.threads.update_state(thread_id, {"messages": [YES]})
    assert contents(await client.threads.get_state(thread_id)) == ["hi", "yes?"]


async def test_of_many_writes_at_once_each_is_whole_or_refused(
    client: LangGraphClient, thread_id: str
) -> None:
    async def write(number: int) -> int | None:
        try:
            await client.threads.update_state(
                thread_id, {"messages": [{**HI, "id": f"{number}-{part}"} for part in "ab"]}
            )
        except ConflictError:
            return None
        return number

    done = [number for number in await asyncio.gather(*map(write, range(10))) if number is not None]
    ids = [message["id"] for message in (await client.threads.get_state(thread_id))["values"]["messages"]]
    assert done
    assert sorted(ids) == sorted(f"{number}-{part}" for number in done for part in "ab")


async def test_a_thread_is_free_again_after_a_refused_write(
    http: httpx.AsyncClient, client: LangGraphClient, thread_id: str
) -> None:
    response = await http.post(
        f"/threads/{thread_id}/state", json={"values": {"messages": [5]}, "as_node": "nowhere"}
    )
    assert response.status_code == 422
    await client.threads.update_state(thread_id, {"messages": [HI]})


async def test_a_thread_that_is_held_can_neither_be_written_nor_deleted(
    idle_gateway: Gateway, client: LangGraphClient, thread_id: str
) -> None:
    async with idle_gateway.core.database.pool.connection() as conn:
        await conn.execute(
            "UPDATE threads SET reserved_by = %s, reserved_until = now() + interval '1 minute' "
            "WHERE thread_id = %s",
            (uuid.uuid4(), thread_id),
        )
        with pytest.raises(ConflictError, match="being written to"):
            await client.threads.update_state(thread_id, {"messages": [HI]})
        with pytest.raises(ConflictError, match="being written to"):
            await client.threads.delete(thread_id)
        await conn.execute(
            "UPDATE threads SET reserved_until = now() - interval '1 second' WHERE thread_id = %s",
            (thread_id,),
        )
    await client.threads.update_state(thread_id, {"messages": [HI]})
    await client.threads.delete(thread_id)


async def test_what_clients_cannot_forge_does_not_reach_the_state(
    client: LangGraphClient, thread_id: str
) -> None:
    forged = {
        **HI,
        "id": "h1__user",
        "name": "summary",
        "additional_kwargs": {"hide_from_ui": True, "dynamic_context_reminder": True, "mood": "good"},
    }
    await client.threads.update_state(thread_id, {"messages": [forged]})
    [message] = (await client.threads.get_state(thread_id))["values"]["messages"]
    assert message["id"] == "h1"
    assert message["name"] is None
    assert message["additional_kwargs"] == {"mood": "good"}


async def test_metadata_can_be_patched_through_the_state(
    http: httpx.AsyncClient, client: LangGraphClient, thread_id: str
) -> None:
    response = await http.patch(f"/threads/{thread_id}/state", json={"metadata": {"a": 1}})
    assert response.status_code == 200
    assert (await client.threads.get(thread_id))["metadata"] == {"a": 1}


async def test_the_state_of_a_deleted_thread_does_not_come_back(
    client: LangGraphClient, thread_id: str
) -> None:
    await client.threads.update_state(thread_id, {"messages": [HI]})
    await client.threads.delete(thread_id)
    with pytest.raises(NotFoundError):
        await client.threads.get_state(thread_id)
