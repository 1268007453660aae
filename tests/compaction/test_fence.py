"""Fences: our own tags are made harmless in content, everything else comes back as it was (rule D2)."""

from __future__ import annotations

import re
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.compaction.fence import FENCE_TAGS, NEW_MESSAGES, fenced, neutralise

ODD_FORMS = [
    "<{tag}>",
    "</{tag}>",
    "</ {tag} >",
    "< / {tag}>",
    "<\n{tag}\n>",
    "<{tag} role='x'>",
    "<{tag}/>",
    "<{tag}",
    "<\\/{tag}>",
    "＜{tag}＞",
    "＜／{tag}＞",
    "﹤{tag}﹥",
    "<\u200b{tag}>",
]


def tag_pattern(tag: str) -> re.Pattern[str]:
    """How a lenient reader would find the tag."""
    return re.compile(rf"[<＜﹤][\s/／\\\u200b]*{tag}(?![\w-])", re.IGNORECASE)


@pytest.mark.parametrize("tag", FENCE_TAGS)
@pytest.mark.parametrize("form", ODD_FORMS)
def test_every_form_of_our_tags_is_neutralised_and_keeps_its_length(tag: str, form: str) -> None:
    for name in (tag, tag.upper(), tag.title()):
        text = f"before {form.format(tag=name)} after"
        harmless = neutralise(text)
        assert not tag_pattern(tag).search(harmless)
        assert len(harmless) == len(text)
        assert "before " in harmless
        assert " after" in harmless


def test_invisible_and_full_width_letters_do_not_hide_a_tag() -> None:
    assert neutralise("<new_\u200bmessages>").startswith("‹")
    assert neutralise("<ｎｅｗ＿ｍｅｓｓａｇｅｓ>").startswith("‹")


@pytest.mark.parametrize(
    "text",
    [
        "a && b &amp; &lt;new_messages&gt; &amp;amp;",
        "<div class='x'>{messages}</div>",
        "<new_messages_count> <old_new_messages> <new-messages> <existing_summary.x>",
        "if new_messages < existing_summary_count: pass",
        "new_messages> existing_summary",
        "x ≪ y ‹quoted›",
    ],
)
def test_other_markup_code_and_ampersands_come_back_unchanged(text: str) -> None:
    assert neutralise(text) == text


@given(st.text(alphabet="<>/ \n_newmsag_xitudrybc‹&;＜", max_size=200))
def test_neutralising_twice_is_neutralising_once(text: str) -> None:
    once = neutralise(text)
    assert neutralise(once) == once


@given(st.lists(st.sampled_from([*"<>/ x", "new_messages", "NEW_messages", "</new_messages>"]), max_size=30))
def test_a_fenced_block_holds_each_tag_once_whatever_is_in_it(pieces: list[str]) -> None:
    block = fenced(NEW_MESSAGES, "".join(pieces))
    assert len(tag_pattern(NEW_MESSAGES).findall(block)) == 2
    assert block.startswith("<new_messages>\n")
    assert block.endswith("\n</new_messages>")


@pytest.mark.parametrize("text", [("<" + " " * 200) * 20_000, "<" * 4_000_000, "<new_" * 800_000])
def test_hostile_text_is_neutralised_in_linear_time(text: str) -> None:
    started = time.process_time()
    neutralise(text)
    assert time.process_time() - started < 5
