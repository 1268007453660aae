"""``useStream`` of ``@langchain/langgraph-sdk/react`` in a page: what a person would see of runs' streams (v1)."""

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
    return await node.once(common_folder, "hook_v1.mjs", served.api)


async def test_an_answer_is_seen_token_by_token_under_the_ids_of_the_state(seen: Reports) -> None:
    submit = dict(seen["submit"])

    assert submit.pop("steps") > 5
    (_, question), (_, answer) = submit.pop("messages")
    assert question == "/slow 30" and answer.endswith("28 29 30")
    assert submit == {"prefixes": True, "sameIds": True, "error": None}


async def test_a_tool_call_runs_and_is_finished(seen: Reports) -> None:
    assert seen["tool_calls"] == {
        "kinds": ["human", "ai", "tool", "ai"],
        "calls": [["list_files", "completed"]],
    }


async def test_a_run_that_is_stopped_ends_at_the_service(seen: Reports) -> None:
    assert seen["stop"] == {"statuses": ["interrupted"]}


async def test_an_error_is_shown_and_the_thread_goes_on(seen: Reports) -> None:
    text = "the demo model was told to fail: the moon is full"

    assert seen["error"] == {"error": text, "reported": text}


async def test_a_question_is_answered(seen: Reports) -> None:
    assert seen["interrupt"] == {"question": "Which colour?", "heard": True}


async def test_an_answer_is_made_again_from_the_checkpoint_before_it(seen: Reports) -> None:
    assert seen["regenerate"] == {"kinds": ["human", "ai", "human", "ai"], "kept": True, "branches": 2}


async def test_a_page_that_is_loaded_during_a_run_sees_all_of_it_once(seen: Reports) -> None:
    join = dict(seen["join_after_reload"])

    assert join.pop("steps") > 5
    assert join == {"loading": True, "asSaved": True, "prefixes": True}


async def test_the_notice_of_a_compaction_arrives(seen: Reports) -> None:
    assert seen["compaction"] == {"notices": ["context_compaction"]}


async def test_an_old_thread_is_shown(seen: Reports) -> None:
    assert seen["history_of_an_old_thread"] == {"kinds": ["human", "ai"]}


async def test_every_kind_of_event_that_the_hook_can_ask_for_arrives(seen: Reports) -> None:
    heard = seen["events_of_every_kind"]

    assert heard["error"] is None
    # There is nothing to tell of in that run.
    assert heard["silent"] == ["custom"]
    assert heard["progress"] == [["list_files", "completed"]]
