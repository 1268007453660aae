"""Words of texts and queries, and which text is meant: pure parts of the recall."""

from __future__ import annotations

import json
from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st
from langchain_core.messages import AIMessage, HumanMessage, ToolMessage

from app.compaction.reference import reference_of
from app.persistence.recall import Unindexed
from app.services.recall.index import PART_CHARS, parts_of, words_of
from app.services.recall.ranking import Candidate, Rarity, rank
from app.services.recall.snippet import snippet
from app.services.recall.text import said, said_by, texts
from app.services.recall.words import LONGEST, MAX_TERMS, query_of, words_in


def words(text: str) -> set[str]:
    return {word for word, _ in words_in(text)}


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("call compaction_trigger now", {"compaction_trigger", "compaction", "trigger"}),
        ("class HTTPServerPool:", {"httpserverpool", "http", "server", "pool"}),
        ("use pkg.module:Class", {"pkg.module:class", "pkg.module", "module", "class"}),
        ("at src/app/b_c.py:12: error", {"src/app/b_c.py:12", "src/app/b_c.py", "b_c.py", "b_c", "src"}),
        ("https://x.example/a/b?id=7&q=z", {"https://x.example/a/b?id=7&q=z", "x.example", "id", "7"}),
        ("code E-4021, ORA-00942", {"e-4021", "4021", "ora-00942", "00942"}),
        ("id 6f9619ff-8b86-d011-b42d-00c04fc964ff", {"6f9619ff-8b86-d011-b42d-00c04fc964ff", "6f9619ff"}),
        ('{"user_id":"ab-1"}', {"user_id", "user", "ab-1"}),
        (r"C:\Users\me\file.txt", {r"c:\users\me\file.txt", "file.txt", "users"}),
        ("会议记录，第二部分", {"会议", "议记", "记录", "第二", "部"}),
        ("カタカナ と ひらがな", {"カタ", "カナ", "ひら", "と"}),
        ("시스템을 확인", {"시스", "스템", "확인"}),
        ("用API接口调用", {"api", "接口", "调用"}),
        ("ＦＵＬＬ　ｗｉｄｔｈ", {"full", "width"}),
        ("Größe der Übergröße", {"größe", "übergröße"}),
        ("v1.2.3 and 3.14", {"v1.2.3", "3.14"}),
    ],
)
def test_names_paths_numbers_and_every_script_are_found_whole_and_in_parts(
    text: str, found: set[str]
) -> None:
    assert found <= words(text)


@given(st.text(max_size=300))
def test_any_text_has_words_that_an_index_can_keep(text: str) -> None:
    for word, place in words_in(text):
        assert 0 < len(word) <= LONGEST + 5
        assert "\0" not in word
        assert word.encode()
        assert place > 0


@given(st.text(max_size=300))
def test_a_text_has_all_words_of_any_query_made_of_it(text: str) -> None:
    query = query_of(text)
    assert len(query.terms) <= MAX_TERMS
    assert set(query.words) <= words(text)


@pytest.mark.parametrize("text", ["", " ", "?!", "%_%", "'; --", "()[]", "…—「」", "\\", "🚀🎉"])
def test_a_query_without_a_word_has_no_terms(text: str) -> None:
    assert not query_of(text).terms or text == "%_%"


def test_a_long_text_is_parted_so_that_every_word_is_whole_in_one_part() -> None:
    text = " ".join(f"word{number:06}" for number in range(20_000))
    parts = list(parts_of(text))
    assert len(parts) > 5
    assert max(map(len, parts)) <= PART_CHARS
    assert {f"word{number:06}" for number in range(20_000)} <= set().union(*map(words, parts))


def test_no_part_of_a_text_has_more_words_than_a_tsvector_can_hold() -> None:
    """A megabyte, places included; the most words to a character has Chinese."""
    text = "".join(chr(0x4E00 + (number * 7919) % 20_000) for number in range(2 * PART_CHARS))
    message = Unindexed("m", "d", 0, json.dumps({"type": "human", "id": "m", "content": text}))
    for part in words_of(message):
        assert len(part.vector.encode()) < 1_000_000
        assert len(part.terms) <= 1000


def test_everything_that_a_message_says_can_be_found_and_no_bytes() -> None:
    data = "QUJD" * 200
    message = AIMessage(
        id="m1",
        content=[
            {"type": "text", "text": "Looking at the plan"},
            {"type": "reasoning", "reasoning": "secret thought"},
            {"type": "image_url", "image_url": {"url": f"data:image/png;base64,{data}"}},
            {"type": "file", "filename": "budget-2026.xlsx", "base64": data},
        ],
        tool_calls=[
            {
                "name": "write_file",
                "id": "c1",
                "args": {"path": "a/b.py", "content": "x\nnext_line = 1", "raw": data},
            }
        ],
        additional_kwargs={"files": [{"filename": "minutes.pdf", "path": "/mnt/minutes.pdf"}]},
    )
    text = said_by(message).text
    for part in (
        "Looking at the plan",
        "budget-2026.xlsx",
        "write_file",
        "a/b.py",
        "next_line",
        "minutes.pdf",
    ):
        assert part in text
    assert "next_line" in words(text)
    assert "QUJDQUJD" not in text
    assert said(message.model_dump()) == said_by(message)


def test_what_was_looked_up_and_the_looking_up_do_not_stand_before_the_originals() -> None:
    call = {"name": "search_history", "id": "c", "args": {"query": "zebra_key"}}
    messages = [
        AIMessage("Let me look.", id="a", tool_calls=[call]),
        ToolMessage("… zebra_key …", id="t", name="search_history", tool_call_id="c"),
        ToolMessage("zebra_key = 7", id="r", name="read_file", tool_call_id="d"),
        HumanMessage("", id="empty"),
        HumanMessage("zebra_key today", id="date", additional_kwargs={"dynamic_context_reminder": True}),
    ]
    found = texts(messages)
    assert [each.message_id for each in found if "zebra_key" in each.text] == ["r"]


def test_a_message_of_any_form_has_a_text() -> None:
    assert said({}).text == ""
    assert said({"type": "tool", "id": 5, "content": {"odd": 1}, "tool_calls": ["x", None]}).message_id == "5"
    assert said({"type": "human", "content": "a\0b\ud800c"}).text == "a�b?c"


@pytest.mark.parametrize("message_id", ["m00012", "call-3", "q7"])
def test_a_short_id_is_its_own_reference(message_id: str) -> None:
    assert reference_of(message_id) == message_id


@pytest.mark.parametrize(
    "message_id",
    ["6f9619ff-8b86-d011-b42d-00c04fc964ff", "lc_run--019a", "x" * 256, "</earlier_messages>\n", "é\ud800"],
)
def test_any_other_id_has_a_short_and_plain_reference(message_id: str) -> None:
    reference = reference_of(message_id)
    assert len(reference) <= 16
    assert reference.isascii()
    assert reference.replace("_", "").replace("-", "").isalnum()


def ranked(query: str, *bodies: str, counts: dict[str, int] | None = None) -> list[str]:
    candidates = [
        Candidate(said_by(HumanMessage(body, id=f"m{number}")), body, number, archived=True)
        for number, body in enumerate(bodies)
    ]
    wanted = query_of(query)
    rarity = Rarity(counts or {}, 1000)
    return [each.candidate.said.message_id for each in rank(candidates, wanted, rarity, {})]


def test_the_exact_phrase_comes_before_all_words_before_some_of_them() -> None:
    assert ranked(
        "could not connect",
        "they could do it but did not want to connect",
        "error: could not connect to db",
        "connect",
    ) == ["m1", "m0", "m2"]


def test_a_rare_word_weighs_more_than_a_common_one() -> None:
    counts = {"file": 300, "quux_limit": 2}
    assert ranked("file quux_limit", "the file, the file, the file", "quux_limit is 3", counts=counts) == [
        "m1",
        "m0",
    ]


def test_what_has_only_a_common_word_of_the_query_is_no_result_beside_what_is_meant() -> None:
    counts = {"file": 990, "quux_limit": 1}
    assert ranked("file quux_limit", "the file", "quux_limit is in a file", counts=counts) == ["m1"]
    assert ranked("file", "the file", counts=counts) == ["m0"]


def test_a_word_by_itself_comes_before_the_same_inside_of_another() -> None:
    assert ranked("port", "an important report", "the port is 80") == ["m1", "m0"]


def test_a_short_message_comes_before_a_long_one_and_the_newest_of_equal_ones_first() -> None:
    long = "zebra " + "other words " * 400
    assert ranked("zebra", long, "zebra here", "zebra here") == ["m2", "m1", "m0"]


def test_a_message_with_nothing_of_the_query_is_no_result() -> None:
    assert ranked("zebra", "a horse", "a cow") == []


@pytest.mark.parametrize(
    ("text", "terms"),
    [
        ("filler " * 300 + "the needle_7 is here " + "filler " * 300, ["needle_7"]),
        ("会" * 500 + "针在这里" + "会" * 500, ["针在"]),
    ],
)
def test_the_snippet_shows_the_place_and_stays_short(text: str, terms: Sequence[str]) -> None:
    shown = snippet(text, "not there", terms, 200)
    assert terms[0] in shown
    assert len(shown) <= 202
    assert shown.startswith("…")
    assert shown.endswith("…")


def test_a_short_text_is_its_own_snippet_on_one_line() -> None:
    assert snippet("one\n two\tthree", "two", ["two"], 100) == "one two three"
