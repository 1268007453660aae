"""A question to the person: the run waits, people see it, and the answer goes on."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest
from langchain_core.messages import AIMessage, HumanMessage, ToolMessage

from app.agent.tools.clarification import NO_ANSWER, unanswered, with_answer
from tests.support.answers import Reply
from tests.support.gateway import Gateway, serving
from tests.support.rig import SMALL, Rig, rigged
from tests.support.threads import Thread, new_thread, talk

QUESTION = {"question": "Which database?", "options": ["PostgreSQL", "SQLite"], "type": "approach_choice"}
OPTIONS = [
    {"id": "option-1", "label": "PostgreSQL", "value": "PostgreSQL"},
    {"id": "option-2", "label": "SQLite", "value": "SQLite"},
]
DEERFLOW_ANSWER = {
    "version": 1,
    "kind": "human_input_response",
    "source": "ask_clarification",
    "request_id": "clarification:c1",
    "response_kind": "option",
    "option_id": "option-2",
    "value": "SQLite",
}


def ask(*calls: tuple[str, Mapping[str, Any]]) -> str:
    """A message that makes the demo model call these tools, all at once."""
    return "\n".join(f"/tool {name} {json.dumps(args)}" for name, args in calls)


ASKING = ask(("ask_clarification", QUESTION))


async def resumed(thread: Thread, answer: Any, **options: Any) -> dict[str, Any]:
    values = await thread.client.runs.wait(thread.id, "agent", command={"resume": answer}, **options)
    assert isinstance(values, dict)
    return values


def tool_results(values: Mapping[str, Any]) -> list[dict[str, Any]]:
    return [message for message in values["messages"] if message["type"] == "tool"]


# What is an answer


def asked(**request: Any) -> ToolMessage:
    shown = {"request_id": "clarification:c1", "question": "Which?", "options": OPTIONS, **request}
    return ToolMessage(
        "Which?", artifact={"human_input": shown}, name="ask_clarification", tool_call_id="c1", id="m1"
    )


@pytest.mark.parametrize(
    ("given", "text"),
    [
        ("PostgreSQL, please", "PostgreSQL, please"),
        ("  two\nlines ", "two\nlines"),
        ({"answer": "PostgreSQL"}, "PostgreSQL"),
        ({"value": "PostgreSQL"}, "PostgreSQL"),
        (DEERFLOW_ANSWER, "SQLite"),
        ({"human_input_response": DEERFLOW_ANSWER}, "SQLite"),
        ({"option_id": "option-2"}, "SQLite"),
        ({"type": "human", "content": [{"type": "text", "text": "SQLite"}]}, "SQLite"),
        ([{"type": "response", "args": "SQLite"}], "SQLite"),
        (["PostgreSQL", "SQLite"], "PostgreSQL, SQLite"),
        (3, "3"),
        (True, "yes"),
        ({"beds": 40}, '{"beds": 40}'),
        ("", NO_ANSWER),
        ({}, NO_ANSWER),
        ([], NO_ANSWER),
        ({"answer": " "}, '{"answer": " "}'),
    ],
)
def test_an_answer_may_come_in_any_form_that_front_ends_send(given: Any, text: str) -> None:
    answered = with_answer(asked(), given)
    assert answered.content == text
    assert (answered.id, answered.tool_call_id, answered.name) == ("m1", "c1", "ask_clarification")
    response = answered.artifact["human_input_response"]
    assert (response["request_id"], response["value"]) == ("clarification:c1", text)
    assert response.get("option_id") == {"PostgreSQL": "option-1", "SQLite": "option-2"}.get(text)


def test_only_questions_at_the_very_end_wait() -> None:
    call = AIMessage("", tool_calls=[{"name": "ask_clarification", "args": {}, "id": "c1"}])
    other = ToolMessage("ok", tool_call_id="c2", name="read_file")
    cases: Sequence[tuple[list[Any], int]] = [
        ([call, asked()], 1),
        ([call, asked(), other], 1),
        ([call, asked(), HumanMessage("never mind")], 0),
        ([call, with_answer(asked(), "x")], 0),
        ([call, asked(), call, other], 0),
        ([call, ToolMessage("?", tool_call_id="c1", name="ask_clarification")], 0),
        ([call, asked().model_copy(update={"name": "search"})], 0),
        ([], 0),
    ]
    assert [len(unanswered(messages)) for messages, _ in cases] == [count for _, count in cases]


# The run waits


async def test_the_question_reaches_the_client_in_stream_thread_and_state(gateway: Gateway) -> None:
    async with new_thread(gateway) as thread:
        parts = await thread.run(ASKING, modes=["values", "updates", "messages-tuple"])
        question = {
            "version": 1,
            "kind": "human_input_request",
            "source": "ask_clarification",
            "clarification_type": "approach_choice",
            "question": "Which database?",
            "input_mode": "choice_with_other",
            "options": OPTIONS,
        }
        for event in ("values", "updates"):
            (shown,) = [
                part.data["__interrupt__"]
                for part in parts
                if part.event == event and "__interrupt__" in part.data
            ]
            assert question.items() <= shown[0]["value"].items()
        read = await thread.client.threads.get(thread.id)
        assert read["status"] == "interrupted"
        ((interrupt,),) = read["interrupts"].values()
        assert question.items() <= interrupt["value"].items()
        assert interrupt["id"] == shown[0]["id"]
        state = await thread.state()
        assert state["interrupts"] == [interrupt]
        (run,) = await thread.client.runs.list(thread.id)
        assert run["status"] == "success"
        # A front end without a word for questions shows the result of the call.
        (result,) = tool_results(state["values"])
        assert result["content"].startswith("Which database?\n1. PostgreSQL\n2. SQLite\n")
        assert result["artifact"]["human_input"] == interrupt["value"]
        (found,) = await thread.client.threads.search(status="interrupted")
        assert found["thread_id"] == thread.id


async def test_waiting_for_a_run_that_asks_answers_with_the_question(gateway: Gateway) -> None:
    async with new_thread(gateway) as thread:
        values = await thread.client.runs.wait(
            thread.id, "agent", input={"messages": [{"role": "user", "content": ASKING}]}
        )
        assert isinstance(values, dict)
        assert values["__interrupt__"][0]["value"]["question"] == "Which database?"


@pytest.mark.parametrize(
    "answer", ["SQLite", {"answer": "SQLite"}, DEERFLOW_ANSWER], ids=["text", "answer", "deerflow"]
)
async def test_the_answer_becomes_the_result_and_the_run_goes_on(gateway: Gateway, answer: Any) -> None:
    async with new_thread(gateway) as thread:
        await thread.run(ASKING)
        values = await resumed(thread, answer)
        assert [message["type"] for message in values["messages"]][-4:] == ["human", "ai", "tool", "ai"]
        (result,) = tool_results(values)
        assert (result["content"], result["status"]) == ("SQLite", "success")
        assert result["tool_call_id"] == values["messages"][-3]["tool_calls"][0]["id"]
        assert "SQLite" in values["messages"][-1]["content"]
        read = await thread.client.threads.get(thread.id)
        assert (read["status"], read["interrupts"]) == ("idle", {})


async def test_the_answer_may_name_its_question_by_id(gateway: Gateway) -> None:
    async with new_thread(gateway) as thread:
        await thread.run(ASKING)
        ((interrupt,),) = (await thread.client.threads.get(thread.id))["interrupts"].values()
        values = await resumed(thread, {interrupt["id"]: "SQLite"})
        assert tool_results(values)[0]["content"] == "SQLite"


async def test_calls_beside_a_question_are_done_once_and_lose_nothing(gateway: Gateway) -> None:
    async with new_thread(gateway) as thread:
        await thread.run(
            ask(
                ("write_file", {"path": "a.txt", "content": "kept"}),
                ("ask_clarification", QUESTION),
                ("read_file", {"path": "missing.txt"}),
            )
        )
        before = tool_results(await thread.values())
        assert sorted(result["status"] for result in before) == ["error", "success", "success"]
        after = tool_results(await resumed(thread, "SQLite"))
        assert [result["id"] for result in after] == [result["id"] for result in before]
        changed = [b["name"] for a, b in zip(before, after, strict=True) if a["content"] != b["content"]]
        assert changed == ["ask_clarification"]


async def test_two_questions_at_once_are_put_one_after_the_other(gateway: Gateway) -> None:
    async with new_thread(gateway) as thread:
        await thread.run(
            ask(("ask_clarification", {"question": "A?"}), ("ask_clarification", {"question": "B?"}))
        )
        first = await resumed(thread, "a")
        assert first["__interrupt__"][0]["value"]["question"] == "B?"
        values = await resumed(thread, "b")
        assert "__interrupt__" not in values
        assert [result["content"] for result in tool_results(values)] == ["a", "b"]


async def test_a_question_outlives_the_process_that_asked_it(tmp_path: Path, database_url: str) -> None:
    async with serving(tmp_path, database_url) as gateway, new_thread(gateway) as thread:
        await thread.run(ASKING)
        thread_id = thread.id
    async with serving(tmp_path, database_url) as gateway:
        client = gateway.client()
        assert (await client.threads.get(thread_id))["status"] == "interrupted"
        values = await client.runs.wait(thread_id, "agent", command={"resume": "SQLite"})
        assert tool_results(values)[0]["content"] == "SQLite"


async def test_a_question_without_its_text_is_an_error_that_the_model_sees(gateway: Gateway) -> None:
    async with new_thread(gateway) as thread:
        await thread.run(ask(("ask_clarification", {"options": ["x"]})))
        values = await thread.values()
        assert tool_results(values)[0]["status"] == "error"
        assert (await thread.client.threads.get(thread.id))["status"] == "idle"


# Not answered


async def test_a_message_instead_of_an_answer_settles_the_question(
    tmp_path: Path, database_template: str
) -> None:
    agents = [{"name": "agent", "tools": ["ask_clarification"]}]
    async with (
        rigged(tmp_path, database_template, SMALL, agents=agents) as rig,
        new_thread(rig.gateway) as thread,
    ):
        rig.provider.tool_call("ask_clarification", QUESTION)
        await thread.run("set it up")
        rig.mark()
        await thread.run("never mind, write a poem")
        (request,) = rig.agent_calls()
        roles = [message["role"] for message in request.messages if message["role"] != "system"]
        assert roles == ["user", "assistant", "tool", "user"]
        assert request.messages[-1]["content"] == "never mind, write a poem"
        read = await thread.client.threads.get(thread.id)
        assert (read["status"], read["interrupts"]) == ("idle", {})
        await thread.run("thanks")
        assert (await thread.client.threads.get(thread.id))["status"] == "idle"


async def test_the_answer_that_deerflows_chat_sends_as_a_message_is_one(gateway: Gateway) -> None:
    async with new_thread(gateway) as thread:
        await thread.run(ASKING)
        message = {
            "role": "user",
            "content": "For your clarification, my answer is: SQLite",
            "additional_kwargs": {"hide_from_ui": True, "human_input_response": DEERFLOW_ANSWER},
        }
        values = await thread.client.runs.wait(thread.id, "agent", input={"messages": [message]})
        answer = values["messages"][-2]
        assert answer["additional_kwargs"] == {"human_input_response": DEERFLOW_ANSWER}
        assert "my answer is: SQLite" in values["messages"][-1]["content"]
        assert (await thread.client.threads.get(thread.id))["status"] == "idle"


async def test_a_thread_can_be_renamed_while_its_question_waits(gateway: Gateway) -> None:
    async with new_thread(gateway) as thread:
        await thread.run(ASKING)
        await thread.client.threads.update_state(thread.id, {"title": "Databases"})
        assert (await thread.client.threads.get(thread.id))["status"] == "interrupted"
        values = await resumed(thread, "SQLite")
        assert tool_results(values)[0]["content"] == "SQLite"
        assert values["title"] == "Databases"


async def test_an_answer_that_nothing_waits_for_changes_nothing(gateway: Gateway) -> None:
    async with new_thread(gateway) as thread:
        await thread.run("hello")
        before = await thread.messages()
        await resumed(thread, "SQLite")
        assert await thread.messages() == before
        assert (await thread.client.threads.get(thread.id))["status"] == "idle"


async def test_an_answer_on_a_thread_that_never_ran_is_an_error_that_says_so(gateway: Gateway) -> None:
    async with new_thread(gateway) as thread:
        values = await resumed(thread, "SQLite", raise_error=False)
        assert values["__error__"]["code"] == "nothing_to_resume"
        assert await thread.messages() == []


# Compaction


async def test_a_thread_that_waits_is_not_compacted_and_the_answer_is_kept_word_for_word(
    gateway: Gateway,
) -> None:
    async with new_thread(gateway, talk(30)) as thread:
        await thread.run(ASKING)
        refused = await thread.compact(keep={"type": "messages", "value": 2})
        assert (refused.status_code, refused.json()["code"]) == (409, "thread_interrupted")
        await resumed(thread, "SQLite, and nothing else")
        before = await thread.messages()
        assert (await thread.compacted(keep={"type": "messages", "value": 1}))["compacted"]
        kept = await thread.messages()
        (answer,) = tool_results({"messages": kept})
        assert answer["content"] == "SQLite, and nothing else"
        calls = [call["id"] for message in kept for call in message.get("tool_calls") or ()]
        assert calls == [answer["tool_call_id"]]
        assert len(kept) < len(before)


def writing(rig: Rig, number: int) -> Reply:
    """A step with a file of some length."""
    content = f"line {number} of the dump\n" * 60
    return Reply(None, tool_calls=(rig.provider.call("write_file", {"path": "a.sql", "content": content}),))


async def test_the_answer_is_the_current_request_of_an_automatic_compaction(
    tmp_path: Path, database_template: str
) -> None:
    agents = [{"name": "agent", "tools": ["write_file", "ask_clarification"]}]
    async with (
        rigged(tmp_path, database_template, SMALL, agents=agents) as rig,
        new_thread(rig.gateway, talk(5)) as thread,
    ):
        rig.provider.tool_call("ask_clarification", QUESTION)
        await thread.run("set it up")
        rig.provider.sequence(*(writing(rig, number) for number in range(6)), Reply("done"))
        await resumed(thread, "SQLite, and call it garden.db")
        assert rig.summary_calls()
        last = rig.agent_calls()[-1]
        assert [
            m["content"] for m in last.messages if m["role"] == "tool" and "garden.db" in m["content"]
        ] == ["SQLite, and call it garden.db"]
