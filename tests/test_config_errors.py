"""Each way a configuration can be wrong has a sentence that names the key, the value and what is allowed (A2)."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from app.config import load_settings, settings_from
from app.errors import ConfigError

MODEL = {"name": "gpt", "use": "langchain_openai:ChatOpenAI"}


def error_of(document: dict[str, Any], environ: dict[str, str] | None = None) -> str:
    with pytest.raises(ConfigError) as caught:
        settings_from(document, config_path=Path("config.yaml"), environ=environ)
    return str(caught.value)


def trigger(kind: str, value: Any) -> dict[str, Any]:
    return {"summarization": {"trigger": {"type": kind, "value": value}}}


def keep(kind: str, value: Any) -> dict[str, Any]:
    return {"summarization": {"keep": {"type": kind, "value": value}}}


CASES: list[tuple[dict[str, Any], tuple[str, ...]]] = [
    # numbers that are none
    (trigger("tokens", float("inf")), ("summarization.trigger.value: Infinity", "finite")),
    (trigger("tokens", float("nan")), ("summarization.trigger.value: NaN", "finite")),
    (trigger("tokens", True), ("summarization.trigger.value: true", "a number above 0")),
    (trigger("tokens", "4000"), ('summarization.trigger.value: "4000"', "without quotes")),
    (trigger("tokens", "many"), ('summarization.trigger.value: "many"', "a number above 0")),
    (trigger("tokens", None), ("summarization.trigger.value: null", "a number above 0")),
    (trigger("tokens", 0), ("summarization.trigger.value: 0 ", "a number above 0")),
    (trigger("tokens", -5), ("summarization.trigger.value: -5", "a number above 0")),
    # fractions
    (trigger("fraction", 80), ("summarization.trigger.value: 80", "did you mean 0.8?")),
    (trigger("fraction", 1.5), ("summarization.trigger.value: 1.5", "at most 1")),
    (trigger("fraction", 0), ("summarization.trigger.value: 0 ", "above 0")),
    (trigger("fraction", -0.1), ("summarization.trigger.value: -0.1", "above 0")),
    (trigger("fraction", 800), ("summarization.trigger.value: 800", "at most 1")),
    ({"summarization": {"target_fraction": 50}}, ("summarization.target_fraction: 50", "did you mean 0.5?")),
    ({"summarization": {"min_gain_fraction": 0}}, ("summarization.min_gain_fraction: 0 ", "above 0")),
    # messages come whole
    (keep("messages", 2.5), ("summarization.keep.value: 2.5", "whole number of 1 or more")),
    (keep("messages", 0), ("summarization.keep.value: 0 ", "whole number of 1 or more")),
    (keep("messages", float("nan")), ("summarization.keep.value: NaN", "finite")),
    # sizes
    (trigger("percent", 8), ('summarization.trigger.type: "percent"', "'tokens', 'messages' or 'fraction'")),
    ({"summarization": {"trigger": 4000}}, ("summarization.trigger: 4000", "must be a list")),
    ({"summarization": {"keep": 10}}, ("summarization.keep: 10", "must be a mapping")),
    ({"summarization": {"keep": {"value": 10}}}, ("summarization.keep.type: is required",)),
    (
        {"summarization": {"trigger": [{"type": "tokens", "value": 9}, {"type": "tokens", "vlaue": 1}]}},
        (
            'summarization.trigger[1].vlaue: unknown key (did you mean "value"?',
            "summarization.trigger[1].value",
        ),
    ),
    # keep against trigger
    (
        {
            "summarization": {
                "trigger": [{"type": "messages", "value": 10}],
                "keep": {"type": "messages", "value": 10},
            }
        },
        ("summarization.keep: 10 messages", "smaller than the trigger of 10 messages"),
    ),
    (
        {
            "summarization": {
                "trigger": [{"type": "tokens", "value": 9000}, {"type": "tokens", "value": 500}],
                "keep": {"type": "tokens", "value": 3000},
            }
        },
        ("summarization.keep: 3000 tokens", "smaller than the trigger of 500 tokens"),
    ),
    (
        {
            "summarization": {
                "trigger": {"type": "fraction", "value": 0.5},
                "keep": {"type": "fraction", "value": 0.6},
            }
        },
        ("summarization.keep: 0.6 fraction", "smaller than the trigger of 0.5 fraction"),
    ),
    (trigger("messages", 1), ("summarization.keep: 1 messages", "smaller than the trigger of 1 messages")),
    # the other keys of summarization
    (
        {"summarization": {"summary_prompt": "Sum it up"}},
        ("summarization.summary_prompt", "must contain {messages}"),
    ),
    ({"summarization": {"summary_prompt": ""}}, ("summarization.summary_prompt", "must contain {messages}")),
    ({"summarization": {"enabled": "yes"}}, ('summarization.enabled: "yes"', "must be true or false")),
    ({"summarization": {"max_summary_calls": 0}}, ("summarization.max_summary_calls: 0", "1 or more")),
    (
        {"summarization": {"max_summary_tokens": True}},
        ("summarization.max_summary_tokens: true", "whole number"),
    ),
    ({"summarization": {"summary_timeout_s": -1}}, ("summarization.summary_timeout_s: -1", "above 0")),
    ({"summarization": {"trim_tokens_to_summarize": 0}}, ("trim_tokens_to_summarize: 0", "1 or more")),
    ({"summarization": {"pin_budget_tokens": 1.5}}, ("summarization.pin_budget_tokens: 1.5", "whole number")),
    ({"summarization": {"draft_ttl_hours": 0}}, ("summarization.draft_ttl_hours: 0", "above 0")),
    (
        {"summarization": {"overflow_fallback": "drop"}},
        ('overflow_fallback: "drop"', "'extractive' or 'none'"),
    ),
    ({"summarization": {"skill_file_read_tool_names": [""]}}, ("skill_file_read_tool_names[0]", "not empty")),
    (
        {"models": [MODEL], "summarization": {"model_name": "gtp"}},
        ('summarization.model_name: "gtp"', 'did you mean "gpt"?', "allowed: gpt, demo"),
    ),
    ({"summarization": {"token_counter": "len"}}, ('token_counter: "len"', '"package.module:function"')),
    ({"summarization": {"token_counter": "no_such_package:f"}}, ("token_counter", "importable")),
    ({"summarization": {"token_counter": "builtins:nothing"}}, ("token_counter", "importable")),
    ({"summarization": {"token_counter": "sys:version"}}, ("token_counter", "must name a function", "a str")),
    # unknown keys
    ({"summarisation": {}}, ('summarisation: unknown key (did you mean "summarization"?',)),
    ({"server": {"prot": 1}}, ('server.prot: unknown key (did you mean "port"?', "allowed: host, port")),
    ({"runs": {"zzz": 1}}, ("runs.zzz: unknown key (allowed: concurrency",)),
    ({"agents": [{"name": "a", "promt": "x"}]}, ("agents[0].promt: unknown key",)),
    # models
    ({"models": [{**MODEL, "context_window": 0}]}, ("models[0].context_window: 0", "1 or more")),
    ({"models": [{**MODEL, "context_window": -1}]}, ("models[0].context_window: -1", "1 or more")),
    ({"models": [{**MODEL, "context_window": "128k"}]}, ('models[0].context_window: "128k"', "whole number")),
    ({"models": [{**MODEL, "max_tokens": 0}]}, ("models[0].max_tokens: 0", "1 or more")),
    (
        {"models": [{"name": "m", "use": "ChatOpenAI"}]},
        ('models[0].use: "ChatOpenAI"', '"package.module:Class"'),
    ),
    ({"models": [{"name": "m"}]}, ("models[0].use: is required",)),
    ({"models": [{"use": "a:B"}]}, ("models[0].name: is required",)),
    ({"models": [MODEL, MODEL]}, ('models[1].name: "gpt"', "must be unique")),
    ({"models": {"gpt": MODEL}}, ("models: a mapping", "must be a list")),
    ({"models": ["gpt"]}, ('models[0]: "gpt"', "must be a mapping")),
    # agents and graphs
    ({"agents": [{"name": "a"}, {"name": "a"}]}, ('agents[1].name: "a"', "must be unique")),
    ({"agents": [{"name": "a b"}]}, ('agents[0].name: "a b"', "letters")),
    (
        {"agents": [{"name": "a", "model": "gtp"}], "models": [MODEL]},
        ('agents[0].model: "gtp"', "allowed: gpt"),
    ),
    ({"agents": [{"name": "a", "tools": "read_file"}]}, ('agents[0].tools: "read_file"', "must be a list")),
    ({"agents": []}, ("agents: a list", "must hold an agent")),
    ({"graphs": {"g": "mine"}}, ('graphs.g: "mine"', '"./path.py:attribute"')),
    ({"graphs": {"g": "./absent.py:graph"}}, ("graphs.g", "no such file")),
    ({"graphs": {"a b": "./absent.py:graph"}}, ("graphs.a b", "letters")),
    ({"graphs": ["./mine.py:graph"]}, ("graphs: a list", "must be a mapping")),
    # the other sections
    ({"server": {"port": 70000}}, ("server.port: 70000", "from 0 to 65535")),
    ({"server": {"port": "8000"}}, ('server.port: "8000"', "without quotes")),
    ({"server": {"host": ""}}, ('server.host: ""', "not empty")),
    ({"server": {"cors_origins": ["chat.example.org"]}}, ("server.cors_origins", "https://chat.example.org")),
    ({"server": {"strict_thread_ids": 1}}, ("server.strict_thread_ids: 1", "true or false")),
    ({"server": [1]}, ("server: a list", "must be a mapping")),
    (
        {"database": {"pool_min_size": 5, "pool_max_size": 4}},
        ("database.pool_max_size: 4", "pool_min_size (5)"),
    ),
    ({"database": {"url": "$NOT_SET"}}, ("database.url", "$NOT_SET", "not set")),
    ({"checkpoint_mode": "both"}, ('checkpoint_mode: "both"', "'delta' or 'full'")),
    ({"checkpoint_mode": []}, ("checkpoint_mode: a list", "'delta' or 'full'")),
    ({"logging": {"level": "loud"}}, ('logging.level: "loud"', "'debug', 'info', 'warning' or 'error'")),
    ({"data_dir": 5}, ("data_dir: 5", "path of a folder")),
    ({"data_dir": ""}, ('data_dir: ""', "path of a folder")),
    ({"runs": {"timeout_s": float("inf")}}, ("runs.timeout_s: Infinity", "finite")),
    ({"workspace": {"max_file_bytes": 0}}, ("workspace.max_file_bytes: 0", "1 or more")),
]


@pytest.mark.parametrize(
    ("document", "said"), CASES, ids=[f"{i}-{case[1][0]}" for i, case in enumerate(CASES)]
)
def test_a_wrong_value_is_named_with_its_key_and_what_is_allowed(
    document: dict[str, Any], said: tuple[str, ...]
) -> None:
    text = error_of(document)

    assert text.startswith("config.yaml: ")
    for words in said:
        assert words in text


def test_a_graph_must_not_have_the_name_of_an_agent(tmp_path: Path) -> None:
    (tmp_path / "mine.py").write_text("")
    path = tmp_path / "config.yaml"
    path.write_text("agents: [{name: same}]\ngraphs: {same: './mine.py:graph'}")

    with pytest.raises(ConfigError, match=r"graphs\.same: .*name of an agent"):
        load_settings(path, {})


def test_several_errors_are_all_listed() -> None:
    text = error_of({"server": {"port": -1, "host": 3}, "modles": [], "runs": {"concurrency": 0}})

    assert "4 problems" in text
    for key in ("server.port", "server.host", "modles", "runs.concurrency"):
        assert f"\n  - {key}: " in text


def test_a_wrong_variable_is_named_instead_of_the_key_it_sets() -> None:
    text = error_of({}, {"THREADKEEP_PORT": "http", "DATABASE_URL": "mysql://root:hunter2@h/d"})

    assert 'THREADKEEP_PORT: "http" is not allowed' in text
    assert "DATABASE_URL: the given value is not allowed" in text
    assert "hunter2" not in text


def test_a_section_that_is_no_mapping_is_an_error_also_when_a_variable_sets_a_key_of_it() -> None:
    assert "server: a list" in error_of({"server": []}, {"THREADKEEP_PORT": "1"})
    assert "server: 5" in error_of({"server": 5}, {"THREADKEEP_PORT": "1"})


def test_an_unknown_key_never_shows_its_value() -> None:
    assert "sk-secret" not in error_of({"server": {"api_key": "sk-secret"}})


def load_error(path: Path) -> str:
    with pytest.raises(ConfigError) as caught:
        load_settings(path, {})
    return str(caught.value)


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    path = tmp_path / "absent.yaml"

    assert load_error(path) == f"{path}: no such file"


def test_a_folder_instead_of_a_file_is_said(tmp_path: Path) -> None:
    assert "is a folder" in load_error(tmp_path)


def test_a_file_that_is_not_utf8_is_said_with_the_place(tmp_path: Path) -> None:
    path = tmp_path / "config.yaml"
    path.write_bytes(b"data_dir: caf\xe9\n")

    assert "not UTF-8 text (byte 13)" in load_error(path)


def test_a_byte_order_mark_does_no_harm(tmp_path: Path) -> None:
    path = tmp_path / "config.yaml"
    path.write_bytes(b"\xef\xbb\xbfserver: {port: 8125}\n")

    assert load_settings(path, {}).server.port == 8125


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("models:\n  - name: x\n api_key: sk-secret\n", "line 3, column 2"),
        ("server: {port: 1\n", "line 2, column 1"),
        ("server: {port: 1}\nserver: {port: 2}\n", 'line 2, column 1: YAML: the key "server" is given twice'),
        ("server: {port: 1, port: 2}\n", 'the key "port" is given twice'),
        ("data_dir: \x07\n", "YAML"),
        ("a: !!python/object/apply:os.getcwd []\n", "line 1"),
    ],
)
def test_a_syntax_error_is_told_with_its_line_and_without_the_text_around_it(
    tmp_path: Path, text: str, said: str
) -> None:
    path = tmp_path / "config.yaml"
    path.write_text(text)

    error = load_error(path)

    assert error.startswith(f"{path}: ")
    assert said in error
    assert "sk-secret" not in error
    assert len(error.splitlines()) == 1


@pytest.mark.parametrize("text", ["- a\n- b\n", "just words", "5"])
def test_a_file_that_is_no_mapping_is_said(tmp_path: Path, text: str) -> None:
    path = tmp_path / "config.yaml"
    path.write_text(text)

    assert "mapping of sections" in load_error(path)


def test_merge_keys_are_no_duplicates(tmp_path: Path) -> None:
    path = tmp_path / "config.yaml"
    path.write_text(
        "models:\n  - &base {name: a, use: 'x.y:Z', temperature: 1}\n  - {<<: *base, name: b}\n",
        encoding="utf-8",
    )

    assert [model.name for model in load_settings(path, {}).models] == ["a", "b"]
