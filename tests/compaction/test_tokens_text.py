"""The estimate knows scripts (rule B3)."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.compaction.tokens import TokenCounter

COUNTER = TokenCounter()
PROSE = (
    "The committee met on Tuesday to discuss the budget, and although nobody disagreed with the figures, "
    "the decision was put off until the auditors had seen them. "
)
CODE = "def total(items):\n    return sum(item['price'] * (1 + item['tax']) for item in items if item['n'] > 0)\n"


def density(text: str) -> float:
    return COUNTER.text(text) / len(text)


def test_latin_prose_has_about_four_characters_a_token() -> None:
    assert 3.6 < 1 / density(PROSE * 20) < 4.6


def test_latin_prose_has_fewer_characters_a_token_for_anthropic_models() -> None:
    assert TokenCounter(3.3).text(PROSE * 20) == pytest.approx(COUNTER.text(PROSE * 20) * 4 / 3.3, rel=0.01)


@pytest.mark.parametrize(
    "text",
    [
        "请总结报告的主要结论并列出问题",
        "この報告書の主な結論を要約してください",
        "보고서의주요결론을요약해주세요",
    ],
    ids=["chinese", "japanese", "korean"],
)
def test_three_thousand_east_asian_characters_are_about_two_thousand_tokens(text: str) -> None:
    long = (text * 300)[:3000]
    assert 1800 <= COUNTER.text(long) <= 2400
    assert 1800 <= TokenCounter(3.3).text(long) <= 2400


def test_mixed_text_is_counted_by_its_parts() -> None:
    mixed = COUNTER.text(PROSE + "请总结报告的主要结论")
    assert abs(mixed - COUNTER.text(PROSE) - COUNTER.text("请总结报告的主要结论")) <= 1


def test_json_and_code_are_denser_than_prose() -> None:
    rows = json.dumps([{"id": n, "ok": True, "price": 12.5, "tags": ["a", "b"]} for n in range(50)])
    assert density(rows) > 1.3 * density(PROSE * 20)
    assert density(CODE * 20) > 1.1 * density(PROSE * 20)


@pytest.mark.parametrize(
    ("text", "least", "most"),
    [
        ("Пожалуйста, кратко изложите основные выводы этого отчёта", 0.25, 0.5),
        ("يرجى تلخيص الاستنتاجات الرئيسية لهذا التقرير", 0.25, 0.7),
        ("कृपया इस रिपोर्ट के मुख्य निष्कर्षों का सारांश दें", 0.29, 1.0),
        ("🎉🚀😀👍🔥", 1.0, 2.5),
    ],
    ids=["cyrillic", "arabic", "devanagari", "emoji"],
)
def test_other_scripts_lie_between_what_old_and_new_vocabularies_need(
    text: str, least: float, most: float
) -> None:
    assert least <= density(text * 10) <= most


def test_the_empty_text_costs_nothing_and_any_other_something() -> None:
    assert COUNTER.text("") == 0
    assert COUNTER.text(".") == 1


def test_lone_surrogates_are_counted_and_do_not_fail() -> None:
    assert COUNTER.text("a\ud800b") >= 1


@given(st.text(alphabet=st.characters(exclude_categories=())), st.text())
def test_a_longer_text_never_costs_less(text: str, more: str) -> None:
    assert COUNTER.text(text) <= COUNTER.text(text + more) <= COUNTER.text(text) + COUNTER.text(more)
