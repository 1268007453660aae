"""The section ``subagents`` of config.yaml, and what agents say of it."""

from __future__ import annotations

from typing import Any

import pytest

from app.config import settings_from
from app.errors import ConfigError

READER = {"name": "reader", "description": "Reads files."}


def refused(**document: Any) -> str:
    with pytest.raises(ConfigError) as caught:
        settings_from(document)
    return str(caught.value)


def test_one_type_is_there_without_any_configuration() -> None:
    subagents = settings_from({}).subagents
    (kind,) = subagents.types
    assert (kind.name, kind.model, kind.tools, kind.skills) == ("general-purpose", None, None, None)
    assert (kind.max_turns, kind.timeout_s, subagents.max_parallel) == (50, 900.0, 3)
    assert settings_from({}).agents[0].subagents is None


def test_types_take_the_place_of_the_shipped_one() -> None:
    given = {
        **READER,
        "tools": ["read_file"],
        "model": "demo",
        "max_turns": 5,
        "timeout_s": 1.5,
        "skills": [],
    }
    settings = settings_from({"subagents": {"max_parallel": 2, "types": [given]}, "agents": [{"name": "a"}]})
    (kind,) = settings.subagents.types
    assert (kind.name, kind.tools, kind.max_turns, kind.timeout_s) == ("reader", ("read_file",), 5, 1.5)
    assert settings_from({"subagents": {"types": []}}).subagents.types == ()


def test_a_section_of_deerflow_loads_with_a_warning() -> None:
    theirs = {
        "timeout_seconds": 1800,
        "max_turns": 120,
        "max_total_per_run": 6,
        "token_budget": {"max_tokens": 1000000},
        "agents": {"bash": {"timeout_seconds": 300}},
        "custom_agents": {"x": {"description": "…", "system_prompt": "…"}},
    }
    settings = settings_from(
        {"subagents": theirs, "summarization": {"trigger": {"type": "tokens", "value": 9}}}
    )
    assert settings.subagents.names == ("general-purpose",)
    (warning,) = settings.warnings
    assert all(f"subagents.{key}" in warning for key in theirs)


@pytest.mark.parametrize(
    ("section", "said"),
    [
        ({"max_paralel": 1}, 'subagents.max_paralel: unknown key (did you mean "max_parallel"?'),
        ({"max_parallel": 0}, "subagents.max_parallel: 0 is not allowed"),
        ({"types": {}}, "subagents.types: a mapping is not allowed: it must be a list"),
        ({"types": [{"name": "x"}]}, "subagents.types[0].description: is required"),
        ({"types": [{**READER, "timeout_s": 0}]}, "subagents.types[0].timeout_s: 0 is not allowed"),
        ({"types": [{**READER, "max_turns": 1.5}]}, "subagents.types[0].max_turns: 1.5 is not allowed"),
        ({"types": [{**READER, "name": "a b"}]}, 'subagents.types[0].name: "a b" is not allowed'),
        ({"types": [{**READER, "tool": []}]}, 'unknown key (did you mean "tools"?'),
        ({"types": [READER, READER]}, 'subagents.types[1].name: "reader" is not allowed: it must be unique'),
        ({"types": [{**READER, "model": "gpt"}]}, 'subagents.types[0].model: "gpt" is not allowed'),
    ],
)
def test_a_wrong_value_is_named_with_what_is_allowed(section: dict[str, Any], said: str) -> None:
    assert said in refused(subagents=section)


def test_an_agent_cannot_have_a_subagent_that_is_not_there() -> None:
    said = refused(agents=[{"name": "a", "subagents": ["genral-purpose"]}])
    assert 'agents[0].subagents[0]: "genral-purpose" is not allowed' in said
    assert 'did you mean "general-purpose"?' in said
    settings_from({"agents": [{"name": "a", "subagents": ["reader"]}], "subagents": {"types": [READER]}})
