"""Texts as they come up in the work of an agent, made up for this. What stands in ⟦⟧ is a secret, the rest is none.

A ``¦`` is left out when a text is read: it keeps those who look for leaks from taking these for some.
"""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from app.redaction import PLACEHOLDER, Redactor

REDACTOR = Redactor(key=b"of this test")
_MARKED = re.compile(r"⟦(.*?)⟧", re.DOTALL)


def _texts() -> list[tuple[str, str]]:
    return [
        (f"{file.stem}-{number}", text.strip("\n").replace("¦", ""))
        for file in sorted((Path(__file__).parent / "texts").glob("*.txt"))
        for number, text in enumerate(file.read_text(encoding="utf-8").split("=====\n"), start=1)
    ]


TEXTS = [pytest.param(text, id=name) for name, text in _texts()]


def plain(marked: str) -> str:
    return _MARKED.sub(r"\1", marked)


def seen(redacted: str) -> str:
    return PLACEHOLDER.sub("⟦⟧", redacted)


@pytest.mark.parametrize("marked", TEXTS)
def test_secrets_are_replaced_and_nothing_else(marked: str) -> None:
    # A placeholder that was there before counts as one.
    assert seen(REDACTOR.text(plain(marked))) == seen(_MARKED.sub("⟦⟧", marked))


@pytest.mark.parametrize("marked", TEXTS)
def test_a_second_time_changes_nothing(marked: str) -> None:
    once = REDACTOR.text(plain(marked))
    assert REDACTOR.text(once) == once


def test_there_are_enough_of_each() -> None:
    harmless = [text for _, text in _texts() if "⟦" not in text]
    assert len(_texts()) >= 200
    assert len(harmless) >= 60
