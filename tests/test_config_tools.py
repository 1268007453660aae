"""The sections title, tool_output and mcp."""

from __future__ import annotations

from typing import Any

import pytest

from app.config import settings_from
from app.config.mcp import expand
from app.errors import ConfigError

SECRET = "sk-0123456789abcdef"


def problems(**sections: Any) -> str:
    with pytest.raises(ConfigError) as caught:
        settings_from(sections)
    return str(caught.value)


def servers(**given: Any) -> dict[str, Any]:
    return {"servers": given}


def test_sections_of_deerflow_are_read_as_far_as_they_mean_the_same() -> None:
    settings = settings_from(
        {
            "title": {
                "enabled": True,
                "max_words": 8,
                "max_chars": 80,
                "model_name": None,
                "prompt_template": "{x}",
            },
            "tool_output": {"enabled": False, "externalize_min_chars": 12000, "exempt_tools": ["read_file"]},
        }
    )
    assert (settings.title.max_words, settings.title.max_chars) == (8, 80)
    assert settings.tool_output.enabled is False
    warning, *_ = settings.warnings
    for key in ("title.prompt_template", "tool_output.externalize_min_chars", "tool_output.exempt_tools"):
        assert key in warning


@pytest.mark.parametrize(
    ("sections", "said"),
    [
        ({"title": {"max_chars": 0}}, "title.max_chars: 0 is not allowed"),
        ({"title": {"model_name": "gpt-9"}}, 'title.model_name: "gpt-9" is not allowed'),
        ({"title": {"max_char": 9}}, 'did you mean "max_chars"?'),
        ({"recall": {"max_results": 0}}, "recall.max_results: 0"),
        ({"recall": {"max_result": 3}}, 'did you mean "max_results"?'),
        ({"tool_output": {"max_chars": 10, "head_chars": 8, "tail_chars": 3}}, "tool_output.tail_chars: 3"),
        (
            {"mcp": servers(a={"transport": "stdio"})},
            "mcp.servers.a: a mapping is not allowed: it must have a command",
        ),
        ({"mcp": servers(a={"transport": "http"})}, "it must have a url, since its transport is http"),
        ({"mcp": servers(a={"transport": "carrier-pigeon", "url": "x"})}, "must be 'stdio', 'http' or 'sse'"),
        (
            {"mcp": servers(a={"command": "x", "comand": "y"})},
            'mcp.servers.a.comand: unknown key (did you mean "command"?',
        ),
        ({"mcp": servers(**{"a b": {"command": "x"}})}, '"a b" is not allowed'),
        ({"mcp": servers(a="npx")}, "mcp.servers.a: "),
        ({"mcp": servers(a={"command": "x", "call_timeout_s": 0})}, "mcp.servers.a.call_timeout_s: 0"),
        ({"mcp": {"server": {}}}, 'did you mean "servers"?'),
        (
            {"mcp": servers(files={"command": "x"}), "agents": [{"name": "agent", "mcp": ["file"]}]},
            'agents[0].mcp[0]: "file" is not allowed: it must name an entry of mcp.servers (did you mean "files"?',
        ),
    ],
)
def test_what_is_wrong_is_said_with_key_value_and_what_is_allowed(
    sections: dict[str, Any], said: str
) -> None:
    assert said in problems(**sections)


def test_servers_may_be_written_as_other_clients_write_them() -> None:
    mcp = settings_from(
        {
            "mcp": {
                "mcpServers": {
                    "process": {
                        "type": "stdio",
                        "command": "npx",
                        "args": ["-y"],
                        "description": "x",
                        "tools": {},
                    },
                    "guessed": {"command": "npx"},
                    "remote": {"url": "https://mcp.example.com", "timeout": 5},
                    "streamable": {"transport": "streamable_http", "url": "https://mcp.example.com"},
                    "events": {"type": "sse", "url": "https://mcp.example.com", "tool_call_timeout": 7},
                    "off": {"command": "npx", "disabled": True},
                    "off_too": {"command": "npx", "enabled": False},
                }
            }
        }
    ).mcp
    assert {name: server.transport for name, server in mcp.servers.items()} == {
        **dict.fromkeys(("process", "guessed", "off", "off_too"), "stdio"),
        **dict.fromkeys(("remote", "streamable"), "http"),
        "events": "sse",
    }
    assert (mcp.servers["remote"].call_timeout_s, mcp.servers["events"].call_timeout_s) == (5, 7)
    assert set(mcp.servers) - set(mcp.enabled) == {"off", "off_too"}


def test_values_of_an_environment_are_texts_whatever_yaml_makes_of_them() -> None:
    env = {"PORT": 8080, "DEBUG": True, "RATE": 0.5, "NAME": "x"}
    (server,) = settings_from({"mcp": servers(a={"command": "x", "env": env})}).mcp.servers.values()
    assert server.env == {"PORT": "8080", "DEBUG": "true", "RATE": "0.5", "NAME": "x"}


def test_variables_stand_anywhere_in_a_text_and_are_looked_up_late() -> None:
    given = {"command": "x", "args": ["--key=${KEY}", "$$", "US$"], "env": {"A": "$OTHER-$KEY"}}
    (server,) = settings_from({"mcp": servers(a=given)}).mcp.servers.values()
    assert server.variables() == ("KEY", "OTHER")
    assert server.missing_variables({"KEY": "k"}) == ("OTHER",)
    assert [expand(text, {"KEY": "k"}) for text in (*server.args, server.env["A"])] == [
        "--key=k",
        "$$",
        "US$",
        "-k",
    ]


def test_no_secret_of_a_server_is_shown() -> None:
    given = {
        "process": {"command": "x", "args": [SECRET], "env": {"KEY": SECRET}},
        "remote": {"url": f"https://user:{SECRET}@mcp.example.com", "headers": {"Authorization": SECRET}},
    }
    assert SECRET not in repr(settings_from({"mcp": servers(**given)}))
    wrong = {
        "a": {"command": "x", "args": SECRET},
        "b": {"transport": "stdio", "url": SECRET, "headers": {"Authorization": [SECRET]}},
        "c": {"command": "x", "env": SECRET},
        "d": {"command": "x", "headers": SECRET},
    }
    assert SECRET not in problems(mcp=servers(**wrong))
