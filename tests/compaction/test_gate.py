"""The gate: what may not replace a conversation (rule E4)."""

from __future__ import annotations

import time
from typing import Any

import pytest
from langchain_core.messages import AIMessage

from app.compaction.gate import Accepted, Refused, judge, without_reasoning
from app.compaction.prompt import summary_prompt
from app.compaction.refusal import reads_like_refusal
from app.compaction.tokens import TokenCounter
from tests.support.models import GOOD_SUMMARY

COUNT = TokenCounter().text
TRANSCRIPT = "\n\n".join(
    f"[{i}] user\nPlease look at invoice {1000 + i} and tell me who paid it." for i in range(9)
)
PROMPT = summary_prompt(None, existing="Old facts. " * 30, new_messages=TRANSCRIPT, max_tokens=1500)


def judged(text: Any, *, max_tokens: int = 1500, prompt: str = PROMPT, **fields: Any) -> Accepted | Refused:
    return judge(AIMessage(content=text, **fields), prompt=prompt, max_tokens=max_tokens, count=COUNT)


def reason(verdict: Accepted | Refused) -> str:
    assert isinstance(verdict, Refused)
    return verdict.reason


def test_a_summary_is_accepted_as_it_is() -> None:
    assert judged(f"  {GOOD_SUMMARY}\n") == Accepted(GOOD_SUMMARY)


@pytest.mark.parametrize(
    "text", ["", "  \n\t", "...", "---\n", [], [{"type": "reasoning", "reasoning": "hm"}]]
)
def test_a_reply_without_words_is_blank(text: Any) -> None:
    assert reason(judged(text)) == "blank"


@pytest.mark.parametrize(
    "fields",
    [
        {"additional_kwargs": {"refusal": "I can't help with that"}},
        {"response_metadata": {"stop_reason": "refusal"}},
        {"content": [{"type": "refusal", "refusal": "no"}]},
    ],
)
def test_a_refusal_the_provider_reports_is_refused(fields: dict[str, Any]) -> None:
    text = fields.pop("content", GOOD_SUMMARY)
    assert reason(judged(text, **fields)) == "refusal"


@pytest.mark.parametrize(
    "metadata",
    [
        {"finish_reason": "content_filter"},
        {"finish_reason": "SAFETY"},
        {"finish_reason": "FinishReason.PROHIBITED_CONTENT"},
        {"stopReason": "guardrail_intervened"},
        {"status": "incomplete", "incomplete_details": {"reason": "content_filter"}},
    ],
)
def test_what_a_content_filter_ended_is_refused(metadata: dict[str, Any]) -> None:
    assert reason(judged(GOOD_SUMMARY, response_metadata=metadata)) == "content_filter"


@pytest.mark.parametrize(
    "metadata",
    [
        {"finish_reason": "length"},
        {"finish_reason": "MAX_TOKENS"},
        {"stop_reason": "max_tokens"},
        {"done_reason": "length"},
        {"status": "incomplete", "incomplete_details": {"reason": "max_output_tokens"}},
    ],
)
def test_what_was_cut_off_at_the_output_limit_is_refused(metadata: dict[str, Any]) -> None:
    assert reason(judged(GOOD_SUMMARY, response_metadata=metadata)) == "cut_off"


@pytest.mark.parametrize(
    "metadata", [{"finish_reason": "stop"}, {"stop_reason": "end_turn"}, {"done_reason": "stop"}]
)
def test_a_reply_that_ended_by_itself_is_accepted(metadata: dict[str, Any]) -> None:
    assert isinstance(judged(GOOD_SUMMARY, response_metadata=metadata), Accepted)


@pytest.mark.parametrize(
    "text",
    [
        "I'm sorry, but I can't assist with that request.",
        "I’m sorry, I cannot help with this.",
        "Sorry, I can't do that.",
        "I can't help with that.",
        "I cannot fulfil this request as it goes against my guidelines.",
        "I'm unable to summarize this conversation.",
        "As an AI language model, I cannot take part in this.",
        "Unfortunately, I am not able to process violent and/or harmful content.",
        "抱歉，我无法满足您的要求。",
        "对不起，我不能协助处理这个请求。",
        "我无法提供这方面的帮助。",
        "申し訳ありませんが、そのご依頼にはお応えできません。",
        "죄송하지만 그 요청은 도와드릴 수 없습니다.",
        "Lo siento, pero no puedo ayudarte con eso.",
        "Je suis désolé, mais je ne peux pas vous aider.",
        "Es tut mir leid, aber dabei kann ich nicht helfen.",
        "Desculpe, não posso ajudar com isso.",
        "Mi dispiace, ma non posso aiutarti.",
        "К сожалению, я не могу помочь с этим.",
    ],
)
def test_a_sentence_that_only_refuses_is_refused(text: str) -> None:
    assert reason(judged(text)) == "refusal"


@pytest.mark.parametrize(
    "text",
    [
        "I cannot reproduce the crash in src/app/login.py; the user wants a fix before Friday.",
        "As an AI assistant I booked the flight for the user and sent the receipt.",
        "Sorry state of affairs: the user can't log in since 2024-05-01 and asked for a refund.",
        "Unfortunately the payment failed.\n- Next: ask for another card, I cannot retry it.",
        "The user cannot open the file and asks for help.",
        "抱歉的用户无法登录，编号 88123，需要退款。",
        "User asked the weather. Assistant was unable to help with that.",
    ],
)
def test_a_short_summary_that_speaks_of_inability_is_no_refusal(text: str) -> None:
    assert not reads_like_refusal(text)
    assert isinstance(judged(text), Accepted)


@pytest.mark.parametrize(
    "text",
    [
        "The user wants a report. " * 40,
        "好的，我来处理这个问题。" * 60,
        "ha" * 2000,
        "x" * 50_000,
        GOOD_SUMMARY + "\n" + "Then the tool was called again. " * 50,
        " ".join(f"word{i}" for i in range(900)) + " and so on." * 120,
        ("A paragraph of some length that says what was found in the files and what was not found. " * 2) * 9,
    ],
)
def test_a_loop_is_refused(text: str) -> None:
    assert reason(judged(text)) == "loop"


@pytest.mark.parametrize(
    "text",
    [
        "## Artifacts\n"
        + "\n".join(f"- /srv/app/services/handlers/module_{i}.py: changed" for i in range(60)),
        "## Artifacts\n" + "\n".join(f"- order {10_000 + 37 * i} shipped" for i in range(80)),
        "用户希望分析第三季度的销售数据，并按地区列出增长率；华东增长百分之十二，华南下降百分之三，其余持平。",
        "None. None. None.",
    ],
)
def test_a_list_of_similar_things_is_no_loop(text: str) -> None:
    assert isinstance(judged(text), Accepted)


def test_an_echo_of_the_whole_prompt_is_refused() -> None:
    assert reason(judged(PROMPT)) == "echo"


def test_an_echo_of_our_instructions_is_refused() -> None:
    assert reason(judged(PROMPT.partition("Existing summary of")[0])) == "echo"


def test_an_echo_of_the_transcript_is_refused() -> None:
    assert reason(judged(TRANSCRIPT)) == "echo"


def test_an_echo_of_a_custom_template_is_refused() -> None:
    template = "You are a careful archivist. Read everything below and write down what matters most.\n" * 2
    custom = summary_prompt(template + "{messages}", existing=None, new_messages="hi", max_tokens=9)
    assert reason(judged(template + " and some words", prompt=custom)) == "echo"


@pytest.mark.parametrize("lines", [5, 20, 120])
def test_giving_back_the_summary_so_far_is_no_echo(lines: int) -> None:
    previous = "\n".join(f"- fact number {i}: the invoice {2000 + i} was paid" for i in range(lines))
    prompt = summary_prompt(None, existing=previous, new_messages="[1] user\nthanks", max_tokens=1500)
    assert judged(previous, prompt=prompt, max_tokens=5000) == Accepted(previous)


def test_a_summary_that_quotes_the_user_is_no_echo() -> None:
    quote = '## Constraints\n- "Please look at invoice 1003 and tell me who paid it."\n## Intent\nPayments.'
    assert isinstance(judged(quote), Accepted)


@pytest.mark.parametrize(
    ("text", "rest"),
    [
        ("<think>let me see</think>\nSummary", "\nSummary"),
        ("<THINKING>\na\nb\n</THINKING>Summary", "Summary"),
        ("a<think>x</think>b<think>y</think>c", "abc"),
        ("the prompt opened it</think>Summary", "Summary"),
        ("Summary\n<think>never closed", "Summary\n"),
        ("<think>never closed", ""),
        ("wrap it in `<think>` and `</think>`", "wrap it in `<think>` and `</think>`"),
        ("the tag <think> is mentioned", "the tag <think> is mentioned"),
    ],
)
def test_reasoning_is_taken_out_first(text: str, rest: str) -> None:
    assert without_reasoning(text) == rest


def test_nothing_but_reasoning_is_blank_and_reasoning_before_a_summary_is_gone() -> None:
    assert reason(judged("<think>The user wants…")) == "blank"
    assert judged(f"<think>hm\n{'so ' * 300}</think>\n\n{GOOD_SUMMARY}") == Accepted(GOOD_SUMMARY)


def long_summary() -> str:
    sections = ("Intent", "Constraints", "Decisions", "Artifacts", "State of the work", "Open questions")
    lines = {title: [f"- {title} point {i}: value {i * 7919}" for i in range(200)] for title in sections}
    return "\n".join(f"## {title}\n" + "\n".join(lines[title]) for title in sections)


def test_a_summary_over_the_limit_is_shortened_by_sections() -> None:
    verdict = judged(long_summary(), max_tokens=600)
    assert isinstance(verdict, Accepted)
    assert COUNT(verdict.text) <= 600
    for title in ("Intent", "Constraints", "Decisions", "Artifacts", "State of the work", "Open questions"):
        assert f"## {title}\n- {title} point 0:" in verdict.text


def test_short_sections_stay_whole_when_a_long_one_is_cut() -> None:
    text = f"## Intent\nFix the login.\n## Artifacts\n{long_summary()[:9000]}\n## Next\nRun the tests."
    verdict = judged(text.replace("## Con", "- Con"), max_tokens=400)
    assert isinstance(verdict, Accepted)
    assert verdict.text.startswith("## Intent\nFix the login.")
    assert verdict.text.endswith("## Next\nRun the tests.")


@pytest.mark.parametrize(
    "text",
    [
        "\n\n".join(f"Paragraph {i} tells of thing number {i * 31}." for i in range(1300)),
        " ".join(f"word{i}" for i in range(6000)),
        "\n".join(f"# {i}" for i in range(9000)),
        "".join(chr(0x4E00 + (i * i * 7 + i * 13) % 20_011) for i in range(50_000)),
    ],
)
def test_fifty_thousand_characters_are_shortened_quickly(text: str) -> None:
    started = time.process_time()
    verdict = judged(text, max_tokens=1500)
    assert time.process_time() - started < 1
    assert isinstance(verdict, Accepted)
    assert 700 < COUNT(verdict.text) <= 1500


def test_a_reply_whose_text_cannot_be_read_raises() -> None:
    class Unreadable(AIMessage):
        @property
        def text(self) -> str:  # type: ignore[override]
            raise ValueError("no text here")

    with pytest.raises(ValueError, match="no text here"):
        judge(Unreadable(content="x"), prompt=PROMPT, max_tokens=10, count=COUNT)
