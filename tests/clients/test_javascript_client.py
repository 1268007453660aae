"""``Client`` of ``@langchain/langgraph-sdk``."""

from __future__ import annotations

from pathlib import Path

import pytest
import pytest_asyncio

from tests.clients import node
from tests.clients.node import Reports
from tests.support.gateway import Gateway

pytestmark = pytest.mark.asyncio(loop_scope="module")

SHOWN = ["end", "messages", "metadata", "updates", "values"]


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def reported(javascript: None, served: Gateway, common_folder: Path) -> Reports:
    return await node.once(common_folder, "client.mjs", served.api)


async def test_threads_are_made_changed_found_copied_and_deleted(reported: Reports) -> None:
    assert reported["threads"] == {
        "metadata": {"colour": "blue", "shade": "dark"},
        "found": [True],
        "count": 1,
        "copied": True,
        "gone": 404,
    }


async def test_state_is_read_written_and_has_a_history(reported: Reports) -> None:
    assert reported["state"] == {
        "empty": [[], [], None],
        "written": ["written by hand"],
        "history": 3,
        "earlier": True,
    }


async def test_a_run_is_streamed_in_several_modes(reported: Reports) -> None:
    stream = dict(reported["stream"])

    assert stream.pop("tokens") > 12
    assert stream == {"kinds": SHOWN, "same": True, "status": "success"}


async def test_a_stream_goes_on_after_any_event_of_it(reported: Reports) -> None:
    assert reported["join"] == {
        "continues": True,
        "ordered": True,
        "messages": 2,
        "filtered": ["end", "metadata", "values"],
    }


async def test_a_run_that_a_thread_stream_began_has_a_stream_of_its_own(
    reported: Reports,
) -> None:
    assert reported["join_a_run_of_a_thread_stream"] == {"kinds": SHOWN, "tokens": True}


async def test_a_run_is_cancelled_once(reported: Reports) -> None:
    assert reported["cancel"] == {"status": "interrupted", "again": 409}


async def test_a_question_is_asked_and_answered(reported: Reports) -> None:
    assert reported["interrupt_and_resume"] == {
        "asked": "Which?",
        "status": "interrupted",
        "interrupts": 1,
        "heard": True,
        "after": "idle",
    }


async def test_an_error_is_an_event_of_a_stream_and_is_thrown_by_a_wait(
    reported: Reports,
) -> None:
    text = "the demo model was told to fail: oh no"

    assert reported["error"] == {"event": text, "thrown": f"ModelError: {text}"}


async def test_strategies_decide_between_two_runs(reported: Reports) -> None:
    assert reported["strategies"] == {"rejected": 409, "first": "interrupted", "second": "success"}


async def test_a_run_begins_at_an_earlier_checkpoint(reported: Reports) -> None:
    assert reported["fork"] == {"messages": ["human", "ai"]}


async def test_runs_need_no_thread(reported: Reports) -> None:
    assert reported["stateless"] == {"messages": 2, "last": "end"}


async def test_the_store_keeps_finds_and_forgets(reported: Reports) -> None:
    assert reported["store"] == {"value": {"size": 43}, "found": 1, "listed": True, "after": None}


async def test_assistants_show_their_graph(reported: Reports) -> None:
    assert reported["assistants"] == {"graph": "agent", "nodes": True, "schemas": True}


async def test_a_thread_stream_is_read_without_a_page(reported: Reports) -> None:
    stream = reported["thread_stream"]

    assert stream["said"] == 2
    # This client hands out a tool call when it begins and when it ends.
    assert {tuple(call) for call in stream["calls"]} == {("list_files", "[empty]")}
    assert stream["kinds"] == ["human", "ai", "tool", "ai"]
    assert stream["tree"] == ["agent", "completed"]


async def test_commands_that_make_no_sense_are_refused_with_the_codes_of_the_protocol(
    reported: Reports,
) -> None:
    assert reported["refusals"] == {
        "unknown": "invalid_argument",
        "named": True,
        "nothing": "no_such_run",
        "injected": "unknown_command",
    }
