"""The extractive summaries of the demo model (rule D4, without a language model)."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from langchain_core.messages import AIMessage, BaseMessage, HumanMessage, SystemMessage, ToolMessage

from app.chat_models.demo import DemoChatModel
from app.chat_models.demo.summary import asks_for_summary, extractive_summary
from app.compaction.excerpt import Excerpt
from app.compaction.gate import Accepted, judge
from app.compaction.prompt import summary_prompt
from app.compaction.render import Transcript
from app.compaction.tokens import TokenCounter

COUNT = TokenCounter().text
CLOSING = "(extractive summary by the demo model)"

TRIP: list[BaseMessage] = [
    HumanMessage("Please plan a trip to Lisbon in May. Never book anything above 200 euros a night!"),
    AIMessage(
        "I look for hotels. I chose the train because it is cheaper than flying.",
        tool_calls=[{"name": "search_hotels", "args": {"city": "Lisbon"}, "id": "1"}],
    ),
    ToolMessage(
        "Hotel Sol, booking id AB-48213, https://hotels.example.org/sol",
        tool_call_id="1",
        name="search_hotels",
    ),
    ToolMessage("timeout", tool_call_id="1", name="search_hotels", status="error"),
    AIMessage("I wrote the plan to plans/lisbon.md. Do you want a room with a view?"),
    HumanMessage("Yes, and keep it quiet."),
]


def prompt_for(messages: list[BaseMessage], existing: str | None = None, **options: Any) -> str:
    transcript = Transcript(messages)
    text = "\n".join(transcript.entry(i).text for i in range(len(transcript)))
    return summary_prompt(
        options.pop("template", None), existing=existing, new_messages=text, **{"max_tokens": 1500, **options}
    )


def test_it_has_sections_with_what_the_conversation_said() -> None:
    summary = extractive_summary(prompt_for(TRIP), 900)

    intent, constraints, decisions, artifacts, state = summary.split("## ")[1:6]
    assert intent.startswith("Intent\n") and "plan a trip to Lisbon" in intent and "keep it quiet" in intent
    assert "“Never book anything above 200 euros a night!”" in constraints
    assert "I chose the train because it is cheaper than flying." in decisions
    for name in ("AB-48213", "https://hotels.example.org/sol", "plans/lisbon.md"):
        assert f"- {name}" in artifacts
    assert "Tools were called 1 times (search_hotels ×1); 1 results were errors." in state
    assert "I wrote the plan to plans/lisbon.md" in state


def test_a_question_is_open_only_until_the_other_side_speaks() -> None:
    asked = extractive_summary(prompt_for(TRIP[:5]), 900)
    answered = extractive_summary(prompt_for(TRIP), 900)

    assert "## Open questions\n- Do you want a room with a view?" in asked
    assert "## Open questions" not in answered


def test_the_existing_summary_is_folded_in_once() -> None:
    first = extractive_summary(prompt_for(TRIP), 900)
    more: list[BaseMessage] = [HumanMessage("Now also compare the ferries in plans/islands.md.")]

    second = extractive_summary(prompt_for(more, existing=first), 900)
    third = extractive_summary(prompt_for(more, existing=second), 900)

    for words in (
        "plan a trip to Lisbon",
        "“Never book anything",
        "I chose the train",
        "AB-48213",
        "compare the ferries",
        "Tools were called",
    ):
        assert second.count(words) == 1
    assert second.count(CLOSING) == 1
    assert second.endswith(CLOSING)
    assert third == second


def test_a_summary_by_another_hand_is_carried_over_too() -> None:
    existing = "The user is Ada.\n\n**Intent**\nShip v2.\n\n## Decisions\n1. Use PostgreSQL.\n## Anything else\n- Paris"

    summary = extractive_summary(prompt_for(TRIP, existing=existing), 900)

    for words in ("The user is Ada.", "Ship v2.", "- Use PostgreSQL.", "- Paris"):
        assert words in summary


def test_it_says_once_and_in_one_line_that_no_model_wrote_it() -> None:
    summary = extractive_summary(prompt_for(TRIP), 900)

    assert summary.splitlines()[-1] == CLOSING
    assert "language model" not in summary


def test_the_same_transcript_gives_the_same_summary() -> None:
    assert extractive_summary(prompt_for(TRIP), 900) == extractive_summary(prompt_for(TRIP), 900)


@pytest.mark.parametrize("limit", [40, 150, 400, 900])
def test_it_stays_within_its_limit_whatever_comes(limit: int) -> None:
    many: list[BaseMessage] = []
    for n in range(200):
        many.append(
            HumanMessage(
                f"Request {n}: you must never touch src/module_{n}/file.py, 请不要修改第 {n} 行。" * 3
            )
        )
        many.append(AIMessage(f"Decided on option {n} because of ticket AB-{n:05}. " * 5))

    summary = extractive_summary(prompt_for(many), limit)

    assert COUNT(summary) <= limit
    assert summary


def test_it_keeps_to_the_length_that_the_prompt_asks_for() -> None:
    many: list[BaseMessage] = [
        HumanMessage(f"Request {n}: always look into docs/part_{n}.md first.") for n in range(99)
    ]

    assert COUNT(extractive_summary(prompt_for(many, max_tokens=200), 900)) <= 200


def test_the_very_first_and_the_newest_requests_survive() -> None:
    many: list[BaseMessage] = [HumanMessage(f"Request number {n} of this conversation.") for n in range(300)]

    summary = extractive_summary(prompt_for(many), 900)

    assert "Request number 0 " in summary
    assert "Request number 299 " in summary


def test_keys_and_passwords_are_not_repeated() -> None:
    said: list[BaseMessage] = [
        HumanMessage("You must always use api_key: sk-abcdefgh12345678 for this."),
        HumanMessage("The password is hunter2, never tell."),
    ]

    summary = extractive_summary(prompt_for(said), 900)

    assert "sk-abcdefgh" not in summary
    assert "hunter2" not in summary


def test_a_custom_prompt_is_recognised_by_its_blocks() -> None:
    prompt = prompt_for(TRIP, template="Bitte fasse zusammen: {messages} Danke.")

    assert asks_for_summary([HumanMessage(prompt)])
    assert "plan a trip to Lisbon" in extractive_summary(prompt, 900)


def test_several_messages_in_one_entry_are_read_too() -> None:
    transcript = Transcript(TRIP)
    groups = [[transcript.entry(index) for index in range(first, first + 3)] for first in (0, 3)]
    numbered = zip(groups, (1, 4), strict=True)
    text = "\n".join(Excerpt.gathered(group, number, 10_000, len).text for group, number in numbered)

    summary = extractive_summary(summary_prompt(None, existing=None, new_messages=text, max_tokens=900), 900)

    assert "plan a trip to Lisbon" in summary
    assert "AB-48213" in summary


@pytest.mark.parametrize(
    "messages",
    [
        [HumanMessage("What does <new_messages> mean?")],
        [HumanMessage("<new_messages>\nhi\n</new_messages>"), AIMessage("ok")],
        [SystemMessage("<new_messages>x</new_messages>"), HumanMessage("hi")],
    ],
)
def test_an_ordinary_request_is_no_summary_call(messages: list[BaseMessage]) -> None:
    assert not asks_for_summary(messages)


@pytest.mark.parametrize(
    "text", ["", "[1] user\n", "words without any header", "[1] note added by the application\nx"]
)
def test_a_transcript_with_little_in_it_still_gives_a_summary(text: str) -> None:
    summary = extractive_summary(summary_prompt(None, existing=None, new_messages=text, max_tokens=900), 900)

    assert "## " in summary


async def test_the_model_writes_it_when_asked_and_the_gate_accepts_it() -> None:
    prompt = prompt_for(TRIP)

    reply = await DemoChatModel().ainvoke([HumanMessage(prompt)])

    verdict = judge(reply, prompt=prompt, max_tokens=1500, count=COUNT)
    assert verdict == Accepted(extractive_summary(prompt, 900))
    assert reply.response_metadata["finish_reason"] == "stop"


@pytest.mark.parametrize("max_tokens", [60, 300])
async def test_a_small_max_tokens_makes_a_short_summary_instead_of_a_cut_one(max_tokens: int) -> None:
    reply = await DemoChatModel(max_tokens=max_tokens).ainvoke([HumanMessage(prompt_for(TRIP * 20))])

    assert COUNT(reply.text) <= max_tokens
    assert reply.response_metadata["finish_reason"] == "stop"
    assert reply.text.endswith(CLOSING)


async def test_summaries_have_a_script_of_their_own() -> None:
    model = DemoChatModel(token_delay_s=0, script=["an answer"], summary_script=["", ValueError("down")])
    call = [HumanMessage(prompt_for(TRIP))]

    assert (await model.ainvoke(call)).text == ""
    with pytest.raises(ValueError, match="down"):
        await model.ainvoke(call)
    assert (await model.ainvoke(call)).text.endswith(CLOSING)
    assert (await model.ainvoke("q")).text == "an answer"


async def test_a_summary_can_be_made_to_take_its_time_and_be_cancelled() -> None:
    model = DemoChatModel(summary_delay_s=60)

    with pytest.raises(TimeoutError):
        await asyncio.wait_for(model.ainvoke([HumanMessage(prompt_for(TRIP))]), 0.05)


async def test_a_streamed_summary_does_not_wait_between_tokens() -> None:
    model = DemoChatModel(token_delay_s=5)

    async with asyncio.timeout(4):
        chunks = [chunk async for chunk in model.astream([HumanMessage(prompt_for(TRIP))])]

    assert "".join(chunk.text for chunk in chunks).endswith(CLOSING)


@pytest.mark.timeout(60)
@pytest.mark.parametrize(
    "piece",
    [
        "a",
        "a/",
        "a.",
        "-",
        "x? ",
        "漢",
        "A1-",
        "→ call x ",
        "[1] user\n",
        "user: ",
        "word must/never.py ",
        "https://a",
    ],
)
def test_two_megabytes_of_anything_are_read_without_running_away(piece: str) -> None:
    """Backtracking that is quadratic in the text would take hours here: the time limit is the check."""
    text = piece * (2_000_000 // len(piece))
    prompt = summary_prompt(None, existing=text[:4000], new_messages=f"[1] user\n{text}", max_tokens=1500)

    summary = extractive_summary(prompt, 900)

    assert 0 < len(summary) < 20_000
