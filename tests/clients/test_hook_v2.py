"""``useStream`` of ``@langchain/react`` 1.x in a page: what a person would see of thread streams (v2)."""

from __future__ import annotations

from pathlib import Path

import pytest
import pytest_asyncio

from tests.clients import node
from tests.clients.node import Reports
from tests.support.gateway import Gateway

pytestmark = pytest.mark.asyncio(loop_scope="module")


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def seen(javascript: None, served: Gateway, common_folder: Path) -> Reports:
    return await node.once(common_folder, "hook_v2.mjs", served.api)


async def test_an_answer_is_seen_token_by_token_under_the_ids_of_the_state(seen: Reports) -> None:
    submit = seen["submit"]

    assert submit.pop("steps") > 5
    (_, question), (_, answer) = submit.pop("messages")
    assert question == "/slow 30" and answer.endswith("28 29 30")
    assert submit == {
        "prefixes": True,
        "sameIds": True,
        "error": None,
        "created": "string",
        "completed": "success",
    }


async def test_a_second_turn_follows_the_first_on_the_same_stream(seen: Reports) -> None:
    assert seen["second_turn"] == {"kinds": ["human", "ai", "human", "ai"], "distinct": 4}


async def test_a_tool_call_runs_and_is_finished(seen: Reports) -> None:
    assert seen["tool_calls"] == {
        "kinds": ["human", "ai", "tool", "ai"],
        "calls": [["list_files", "finished", {}]],
        "statuses": ["running", "finished"],
    }


async def test_a_subagent_is_found_and_what_it_says_is_seen_in_its_namespace(
    seen: Reports,
) -> None:
    assert seen["subagent"] == {
        "kinds": ["human", "ai", "tool", "ai"],
        "subagents": [["general-purpose", "complete", "tools", "look around"]],
        "subgraphs": [],
        "inner": ["human", "ai"],
    }


async def test_a_run_that_is_stopped_ends_at_the_service(seen: Reports) -> None:
    assert seen["stop"]["statuses"] == ["interrupted"]


async def test_an_error_is_shown_and_the_thread_goes_on(seen: Reports) -> None:
    text = "the demo model was told to fail: the moon is full"

    assert seen["error"] == {"error": text, "reported": text, "after": True}


async def test_a_question_is_answered(seen: Reports) -> None:
    assert seen["interrupt"] == {
        "question": "Which colour?",
        "asked": 1,
        "kinds": ["human", "ai", "tool", "ai"],
        "heard": True,
        "error": None,
    }


async def test_a_question_is_answered_by_a_page_that_was_loaded_after_it(seen: Reports) -> None:
    assert seen["answer_after_reload"] == {"question": "Which colour?", "heard": True, "interrupts": 0}


async def test_an_answer_is_made_again_from_the_checkpoint_before_it(seen: Reports) -> None:
    assert seen["regenerate"] == {
        "known": True,
        "kinds": ["human", "ai", "human", "ai"],
        "kept": True,
        "sameAsState": True,
    }


async def test_a_page_that_is_loaded_during_a_run_sees_all_of_it_once(seen: Reports) -> None:
    join = seen["join_after_reload"]

    assert join.pop("steps") > 5
    assert join == {"loading": True, "same": True, "asSaved": True, "prefixes": True}


async def test_a_run_that_another_client_began_in_the_background_is_seen_token_by_token(
    seen: Reports,
) -> None:
    run = seen["run_of_v1"]

    assert run.pop("steps") > 5
    assert run == {"kinds": ["human", "ai", "human", "ai"], "run": "success"}


async def test_the_notice_of_a_compaction_arrives(seen: Reports) -> None:
    notices = seen["compaction"]

    assert set(notices["notices"]) == set(notices["names"]) == {"context_compaction"}


async def test_a_websocket_shows_the_same(seen: Reports) -> None:
    socket = seen["websocket"]

    assert socket["steps"] > 5
    assert [kind for kind, _ in socket["messages"]] == ["human", "ai"]
    assert socket["error"] is None
