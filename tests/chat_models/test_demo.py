"""The demo model: what it answers, how it streams, how people and tests drive it."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Sequence
from typing import Any

import pytest
from langchain.agents import create_agent
from langchain_core.exceptions import ContextOverflowError
from langchain_core.messages import (
    AIMessage,
    AIMessageChunk,
    BaseMessage,
    HumanMessage,
    SystemMessage,
    ToolMessage,
)
from langchain_core.runnables import Runnable
from langchain_core.tools import tool

from app.agent.durable import with_durable_block
from app.chat_models.demo import DemoChatModel
from app.compaction.tokens import TokenCounter
from app.errors import ModelError

NOTICE = "no language model is behind this answer"


@tool
def write_file(path: str, content: str) -> str:
    """Write a file."""
    return f"wrote {len(content)} characters to {path}"


@tool
def read_file(path: str) -> str:
    """Read a file."""
    return f"the content of {path}"


def demo(**options: Any) -> DemoChatModel:
    return DemoChatModel(**{"token_delay_s": 0, **options})


def with_tools(**options: Any) -> Runnable[Any, AIMessage]:
    return demo(**options).bind_tools([write_file, read_file])


async def streamed(model: Runnable[Any, Any], messages: Sequence[BaseMessage]) -> list[AIMessageChunk]:
    return [chunk async for chunk in model.astream(list(messages))]


def whole(chunks: Sequence[AIMessageChunk]) -> AIMessageChunk:
    total: Any = chunks[0]
    for chunk in chunks[1:]:
        total = total + chunk
    assert isinstance(total, AIMessageChunk)
    return total


async def say(text: str, model: Runnable[Any, AIMessage] | None = None) -> AIMessage:
    return await (model or with_tools()).ainvoke([HumanMessage(text)])


# Answers


async def test_every_answer_says_that_no_language_model_is_behind_it() -> None:
    for text in ("hello", '/tool read_file {"path": "a"}', "/tool nothing", "/slow 3", "/think", ""):
        assert NOTICE in (await say(text)).text


async def test_it_says_what_it_sees_of_the_conversation() -> None:
    history: list[BaseMessage] = [
        SystemMessage("be kind"),
        HumanMessage("first question"),
        AIMessage("first answer"),
        HumanMessage("and now the second"),
    ]

    text = (await demo().ainvoke(history)).text

    assert "“and now the second”" in text
    assert "I see 3 messages (2 from you, 1 from me)" in text
    assert "There is no summary of an earlier conversation" in text


async def test_it_sees_the_summary_in_the_durable_block() -> None:
    request = with_durable_block(
        [SystemMessage("be kind"), HumanMessage("go on")], {"summary_text": "The trip goes to Lisbon."}
    )
    assert request is not None

    text = (await demo().ainvoke(request)).text

    assert "A summary of the earlier conversation is present; it begins “The trip goes to Lisbon." in text
    assert "“go on”" in text
    assert "1 from you, 1 added by the application" in text


async def test_it_takes_the_persons_words_and_not_those_of_reminders_for_the_question() -> None:
    reminder = HumanMessage(
        "memory", additional_kwargs={"hide_from_ui": True, "dynamic_context_reminder": True}
    )

    text = (await demo().ainvoke([HumanMessage("the real question"), reminder])).text

    assert "“the real question”" in text


async def test_it_reports_tool_results_of_this_turn() -> None:
    history: list[BaseMessage] = [
        HumanMessage("please"),
        AIMessage("", tool_calls=[{"name": "read_file", "args": {"path": "a"}, "id": "1"}]),
        ToolMessage("not found", tool_call_id="1", name="read_file", status="error"),
    ]

    assert "The tool read_file failed: “not found”" in (await demo().ainvoke(history)).text


async def test_a_long_question_is_quoted_shortly() -> None:
    assert len((await say("word " * 100_000)).text) < 600


async def test_it_warns_in_the_log_once(caplog: pytest.LogCaptureFixture) -> None:
    model = demo()
    with caplog.at_level(logging.WARNING):
        await model.ainvoke("one")
        await model.bind_tools([read_file]).ainvoke("two")

    assert [record.message for record in caplog.records] == [
        "the demo model is in use: no language model is behind its answers"
    ]


# Streaming


async def test_it_streams_word_by_word_under_one_id_and_the_sum_is_the_answer() -> None:
    chunks = await streamed(demo(), [HumanMessage("hello")])
    invoked = await demo().ainvoke([HumanMessage("hello")])

    assert len(chunks) > 20
    assert len({chunk.id for chunk in chunks}) == 1
    assert chunks[0].id
    assert invoked.id
    assert whole(chunks).text == invoked.text


async def test_usage_is_that_of_the_real_request_in_both_modes() -> None:
    history = [HumanMessage("hello " * 1000)]
    counter = TokenCounter()

    invoked = await demo().ainvoke(history)
    bound = await with_tools().ainvoke(history)
    total = whole(await streamed(demo(), history))

    assert invoked.usage_metadata is not None and bound.usage_metadata is not None
    assert invoked.usage_metadata["input_tokens"] == counter.messages(history)
    assert bound.usage_metadata["input_tokens"] > invoked.usage_metadata["input_tokens"]
    assert total.usage_metadata == invoked.usage_metadata
    assert invoked.usage_metadata["output_tokens"] == counter.message(AIMessage(invoked.text))
    assert total.response_metadata["model_name"] == "demo"
    assert total.response_metadata["finish_reason"] == "stop"


async def test_a_delay_per_token_is_kept() -> None:
    started = time.monotonic()
    chunks = await streamed(demo(token_delay_s=0.005), [HumanMessage("hello")])

    assert time.monotonic() - started >= 0.005 * len(chunks) * 0.9


async def test_slow_streams_as_many_tokens_as_were_asked_for_and_can_be_cancelled_between_them() -> None:
    received: list[str] = []
    arrived = asyncio.Event()

    async def consume() -> None:
        async for chunk in demo().astream([HumanMessage("/slow 2000")]):
            received.append(chunk.text)
            if len(received) == 3:
                arrived.set()

    task = asyncio.create_task(consume())
    await asyncio.wait_for(arrived.wait(), 5)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task

    assert len(received) < 10


async def test_slow_is_bounded() -> None:
    answer = await say("/slow 999999")

    assert answer.text.endswith(" 2000")


async def test_without_a_delay_it_still_lets_others_work_between_tokens() -> None:
    turns = 0

    async def other() -> None:
        nonlocal turns
        while True:
            turns += 1
            await asyncio.sleep(0)

    task = asyncio.create_task(other())
    chunks = await streamed(demo(), [HumanMessage("hello")])
    task.cancel()

    assert turns >= len(chunks) - 1


async def test_max_tokens_cuts_the_answer_and_says_so() -> None:
    answer = await say("hello", demo(max_tokens=5))

    assert answer.response_metadata["finish_reason"] == "length"
    assert len(answer.text.split()) == 5


async def test_its_profile_declares_its_window() -> None:
    assert (demo().profile or {})["max_input_tokens"] == 128_000
    assert (demo(context_window=500).profile or {})["max_input_tokens"] == 500
    assert demo()._llm_type == "threadkeep-demo"


async def test_it_refuses_what_does_not_fit_its_window_when_told_to() -> None:
    strict = demo(context_window=1000, enforce_window=True)

    assert NOTICE in (await strict.ainvoke("short")).text
    with pytest.raises(ContextOverflowError, match="context window of the demo model 1000"):
        await strict.ainvoke("word " * 2000)
    assert NOTICE in (await demo(context_window=1000).ainvoke("word " * 2000)).text


# Commands


async def test_tool_lines_become_parallel_calls() -> None:
    answer = await say(
        'do it\n/tool write_file {"path": "a.txt", "content": "hi"}\n/tool read_file {"path": "b"}'
    )

    assert [(call["name"], call["args"]) for call in answer.tool_calls] == [
        ("write_file", {"path": "a.txt", "content": "hi"}),
        ("read_file", {"path": "b"}),
    ]
    assert answer.response_metadata["finish_reason"] == "tool_calls"
    assert len({call["id"] for call in answer.tool_calls}) == 2


async def test_streamed_calls_are_the_same_as_invoked_ones() -> None:
    request = [
        HumanMessage(
            '/tool write_file {"path": "ä \\"q\\"", "content": "1\\n2"}\n/tool read_file {"path": "b"}'
        )
    ]

    invoked = await with_tools().ainvoke(request)
    total = whole(await streamed(with_tools(), request))

    assert [(c["name"], c["args"]) for c in total.tool_calls] == [
        (c["name"], c["args"]) for c in invoked.tool_calls
    ]


async def test_arguments_may_go_on_over_several_lines() -> None:
    answer = await say(
        '/tool write_file {\n  "path": "a",\n  "content": "b"\n}\n/tool read_file {"path": "c"}'
    )

    assert [call["name"] for call in answer.tool_calls] == ["write_file", "read_file"]


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("/tool delete_file {}", "delete_file: no tool of that name is bound (bound: write_file, read_file)"),
        ("/tool write_file {oops}", "write_file: its arguments are not valid JSON"),
        ("/tool write_file [1]", "write_file: its arguments must be a JSON object"),
        ("/tool", "/tool needs the name of a tool"),
        ("/tool {}", "/tool needs the name of a tool"),
    ],
)
async def test_a_call_that_cannot_be_made_is_explained_and_none_is_made(line: str, said: str) -> None:
    answer = await say(f'/tool read_file {{"path": "a"}}\n{line}')

    assert answer.tool_calls == []
    assert said in answer.text


async def test_without_bound_tools_it_says_so() -> None:
    assert "no tool of that name is bound (bound: none)" in (await say("/tool read_file {}", demo())).text


async def test_an_agent_runs_round_after_round_and_ends() -> None:
    agent: Any = create_agent(demo(), [write_file, read_file])
    lines = (
        '/tool write_file {"path": "a", "content": "x"}',
        "/then",
        '/tool read_file {"path": "a"}',
        '/tool read_file {"path": "b"}',
    )

    state = await agent.ainvoke({"messages": [HumanMessage("\n".join(lines))]})

    names = [[call["name"] for call in m.tool_calls] for m in state["messages"] if isinstance(m, AIMessage)]
    assert names == [["write_file"], ["read_file", "read_file"], []]
    assert "The tool read_file answered: “the content of b”" in state["messages"][-1].text


async def test_rounds_go_on_when_a_compaction_took_earlier_ones_away() -> None:
    lines = "\n/then\n".join(f'/tool read_file {{"path": "{n}"}}' for n in range(4))
    history: list[BaseMessage] = [HumanMessage(lines)]
    made: list[str] = []
    for _ in range(4):
        answer = await with_tools().ainvoke(history)
        made += [call["args"]["path"] for call in answer.tool_calls]
        result = ToolMessage("ok", tool_call_id=str(answer.tool_calls[0]["id"]), name="read_file")
        # Only the newest exchange survives.
        history = [history[0], answer, result]
    final = await with_tools().ainvoke(history)

    assert made == ["0", "1", "2", "3"]
    assert final.tool_calls == []


async def test_error_makes_the_call_fail_with_the_given_words() -> None:
    with pytest.raises(ModelError, match="the disk is on fire"):
        await say("/error the disk is on fire")
    with pytest.raises(ModelError, match="told to fail"):
        await streamed(demo(), [HumanMessage("/error")])


async def test_a_past_error_command_does_not_fail_later_turns() -> None:
    history: list[BaseMessage] = [HumanMessage("/error once"), HumanMessage("and now?")]

    assert NOTICE in (await demo().ainvoke(history)).text


async def test_think_puts_a_reasoning_block_before_the_answer() -> None:
    answer = await say("/think about apples")
    total = whole(await streamed(demo(), [HumanMessage("/think about apples")]))

    for message in (answer, total):
        assert isinstance(message.content, list)
        reasoning, text = message.content
        assert isinstance(reasoning, dict) and isinstance(text, dict)
        assert (reasoning["type"], reasoning["reasoning"]) == ("reasoning", "about apples")
        assert NOTICE in text["text"]
    assert total.text == answer.text


async def test_words_that_only_look_like_commands_are_words() -> None:
    answer = await say("use /tool read_file {} in the middle, /unknown, /tools")

    assert answer.tool_calls == []
    assert "use /tool read_file" in answer.text


# Scripts


async def test_a_script_is_consumed_in_order_and_then_it_answers_on_its_own() -> None:
    call = AIMessage("calling", tool_calls=[{"name": "anything", "args": {"a": 1}, "id": "x"}])
    model = demo(script=["first", call, ValueError("third")])

    assert (await model.ainvoke("q")).text == "first"
    total = whole(await streamed(model, [HumanMessage("q")]))
    assert (total.text, total.tool_calls[0]["args"], total.tool_calls[0]["id"]) == ("calling", {"a": 1}, "x")
    with pytest.raises(ValueError, match="third"):
        await model.ainvoke("q")
    assert NOTICE in (await model.ainvoke("q")).text


async def test_copies_and_bound_variants_share_one_script() -> None:
    model = demo(script=["one", "two", "three"])
    copied = model.model_copy(update={"tags": ["nostream"]})

    texts = [(await m.ainvoke("q")).text for m in (model, copied, model.bind_tools([read_file]))]

    assert texts == ["one", "two", "three"]


async def test_scripted_messages_keep_their_id_usage_and_metadata() -> None:
    scripted = AIMessage(
        "said",
        id="mine",
        usage_metadata={"input_tokens": 5, "output_tokens": 6, "total_tokens": 11},
        response_metadata={"finish_reason": "length"},
        additional_kwargs={"refusal": "no"},
    )

    for message in (
        await demo(script=[scripted]).ainvoke("q"),
        whole(await streamed(demo(script=[scripted]), [HumanMessage("q")])),
    ):
        assert message.id == "mine"
        assert message.usage_metadata == scripted.usage_metadata
        assert message.response_metadata["finish_reason"] == "length"
        assert message.additional_kwargs == {"refusal": "no"}


async def test_scripted_invalid_calls_arrive_as_such() -> None:
    invalid = AIMessage(
        "",
        invalid_tool_calls=[
            {"type": "invalid_tool_call", "name": "f", "args": "no json", "id": "1", "error": None}
        ],
    )

    total = whole(await streamed(demo(script=[invalid]), [HumanMessage("q")]))

    assert (total.invalid_tool_calls[0]["name"], total.invalid_tool_calls[0]["args"]) == ("f", "no json")


def test_it_can_be_called_without_a_loop() -> None:
    assert NOTICE in demo().invoke("hello").text
