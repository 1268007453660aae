"""When a tool result counts as a loaded skill, rule by rule (G2)."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from langchain_core.messages import AIMessage, HumanMessage, ToolMessage
from langgraph.types import Command

from app.agent.skills import SkillCapture

PATH = "/mnt/skills/tidy/SKILL.md"
ENTRY = {"name": "tidy", "path": PATH, "description": "Sorts.", "loaded_at": "2026-01-01T00:00:00.000+00:00"}
CAPTURE = SkillCapture("/mnt/skills", ("read_file", "view"))


def call(path: Any = PATH, name: str = "read_file", argument: str = "path") -> dict[str, Any]:
    return {"name": name, "args": {argument: path}, "id": "c1"}


def result(entry: Any = ENTRY, **fields: Any) -> ToolMessage:
    given = {"content": "text", "tool_call_id": "c1", "name": "read_file", **fields}
    return ToolMessage(**given, additional_kwargs={"skill_context_entry": entry})


def test_a_stamped_result_of_the_read_tool_is_captured_as_it_was_stamped() -> None:
    assert CAPTURE.of(call(), result()) == ENTRY


@pytest.mark.parametrize("argument", ["path", "file_path"])
@pytest.mark.parametrize("path", [PATH, "/mnt//skills/tidy/SKILL.md", "/mnt/skills/./tidy/SKILL.md"])
def test_the_path_of_the_call_may_be_written_loosely(path: str, argument: str) -> None:
    captured = CAPTURE.of(call(path, argument=argument), result())
    assert captured
    assert captured["path"] == PATH


def test_an_error_is_not_captured() -> None:
    assert CAPTURE.of(call(), result(status="error")) is None


@pytest.mark.parametrize("name", ["cat", "write_file", "READ_FILE", "search", ""])
def test_another_tool_is_not_captured_whatever_its_result_says(name: str) -> None:
    assert CAPTURE.of(call(name=name), result(name="read_file")) is None


def test_without_tool_names_nothing_is_captured() -> None:
    assert SkillCapture("/mnt/skills", ()).of(call(), result()) is None


@pytest.mark.parametrize(
    "message",
    [
        ToolMessage('{"skill_context_entry": {"path": "/mnt/skills/tidy/SKILL.md"}}', tool_call_id="c1"),
        ToolMessage("---\nname: tidy\ndescription: Sorts.\n---\nx", tool_call_id="c1", name="read_file"),
        ToolMessage("x", tool_call_id="c1", artifact={"skill_context_entry": ENTRY}),
        ToolMessage("x", tool_call_id="c1", response_metadata={"skill_context_entry": ENTRY}),
        ToolMessage([{"type": "text", "text": "x", "skill_context_entry": ENTRY}], tool_call_id="c1"),
        HumanMessage("x", additional_kwargs={"skill_context_entry": ENTRY}),
        AIMessage("x", additional_kwargs={"skill_context_entry": ENTRY}),
        Command(update={"messages": [result()]}),
        "text",
        None,
    ],
    ids=[
        "json",
        "skill text",
        "artifact",
        "response metadata",
        "block",
        "human",
        "ai",
        "command",
        "text",
        "none",
    ],
)
def test_what_only_says_that_it_is_a_skill_is_not_captured(message: Any) -> None:
    assert CAPTURE.of(call(), message) is None


@pytest.mark.parametrize(
    "entry", [None, "tidy", [], [ENTRY], {}, {"path": None}, {"path": 5}, {"path": [PATH]}]
)
def test_metadata_of_another_form_is_not_captured(entry: Any) -> None:
    assert CAPTURE.of(call(), result(entry)) is None


@pytest.mark.parametrize(
    "path", ["/mnt/skills/other/SKILL.md", "notes/a.txt", "SKILL.md", None, 5, ["/mnt/skills/tidy/SKILL.md"]]
)
def test_metadata_about_another_file_than_the_call_named_is_not_captured(path: Any) -> None:
    assert CAPTURE.of(call(path), result()) is None
    assert CAPTURE.of({"name": "read_file", "args": {}, "id": "c1"}, result()) is None


@pytest.mark.parametrize(
    "path",
    [
        "/mnt/skills/../secrets/SKILL.md",
        "/mnt/skills/tidy/../../x/SKILL.md",
        "/mnt/skills/../skills/tidy/SKILL.md",
        "/mnt/skillsX/tidy/SKILL.md",
        "/mnt/SKILL.md",
        "/mnt/skills",
        "/mnt/skills/tidy",
        "/mnt/skills/tidy/skill.md",
        "/mnt/skills/tidy/SKILL.md.txt",
        "/mnt/skills/tidy/NOT-SKILL.md",
        "/etc/passwd",
        "mnt/skills/tidy/SKILL.md",
        "tidy/SKILL.md",
        "",
        "/",
        "/mnt/skills/" + "x" * 300 + "/SKILL.md",
    ],
)
def test_a_path_that_is_no_skill_below_the_root_is_not_captured(path: str) -> None:
    assert CAPTURE.of(call(path), result({**ENTRY, "path": path})) is None


@given(st.lists(st.sampled_from(["..", ".", "", "mnt", "skills", "tidy", "SKILL.md", "x"]), max_size=8))
def test_whatever_is_captured_lies_below_the_root(names: list[str]) -> None:
    path = "/".join(names)
    captured = CAPTURE.of(call(path), result({**ENTRY, "path": path}))
    if captured:
        assert captured["path"].startswith("/mnt/skills/")
        assert captured["path"].endswith("/SKILL.md")
        assert ".." not in captured["path"]


def test_what_is_kept_is_bounded() -> None:
    entry = {**ENTRY, "name": "n" * 999, "description": "d" * 9_999, "more": "x", "loaded_at": None}
    captured = CAPTURE.of(call(), result(entry))
    assert captured == {
        "name": "n" * 64,
        "path": PATH,
        "description": "d" * 500,
        "loaded_at": "",
    }
