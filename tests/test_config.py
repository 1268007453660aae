"""What the file, the environment and the command line add up to."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import pytest
from pydantic import ValidationError

from app.config import DatabaseSettings, Overrides, Settings, load_settings, settings_from

SHIPPED = Path(__file__).parent.parent / "config.yaml"

DEERFLOW = """
config_version: 33
log_level: info
logging:
  enhance: {enabled: false, format: text}
token_usage:
  enabled: true
models:
  - name: doubao
    display_name: Doubao
    use: deerflow.models.patched_deepseek:PatchedChatDeepSeek
    model: doubao-seed-1-8
    api_base: https://llm.example.org/api/v3
    api_key: $VOLCENGINE_API_KEY
    timeout: 600.0
    max_retries: 2
    context_window: 262144
    supports_thinking: true
    supports_vision: true
    when_thinking_enabled:
      extra_body: {thinking: {type: enabled}}
    pricing: {currency: CNY, input_per_million: 8.0}
  - name: gpt-4
    use: langchain_openai:ChatOpenAI
    model: gpt-4
    api_key: $OPENAI_API_KEY
    request_timeout: 600.0
    max_tokens: 4096
    temperature: 0.7
tool_groups: [{name: web}]
tools:
  - {name: web_search, group: web, use: "deerflow.community.tavily.tools:web_search_tool"}
sandbox:
  use: deerflow.sandbox.local:LocalSandboxProvider
skills:
  use: deerflow.skills.storage.local_skill_storage:LocalSkillStorage
  container_path: /mnt/skills
title: {enabled: true, max_words: 6}
summarization:
  enabled: true
  model_name: null
  trigger:
    - type: tokens
      value: 32000
  keep:
    type: messages
    value: 10
  trim_tokens_to_summarize: 15564
  summary_prompt: null
  preserve_recent_skill_count: 5
  preserve_recent_skill_tokens: 25000
  preserve_recent_skill_tokens_per_skill: 5000
  skill_file_read_tool_names: [read_file, read, view, cat]
memory:
  enabled: true
channels:
database:
  backend: sqlite
  sqlite_dir: .deer-flow/data
"""


def write(folder: Path, text: str) -> Path:
    path = folder / "config.yaml"
    path.write_text(text, encoding="utf-8")
    return path


def test_an_empty_file_means_all_defaults(tmp_path: Path) -> None:
    settings = load_settings(write(tmp_path, ""), {})

    assert (settings.server.host, settings.server.port) == ("127.0.0.1", 8000)
    assert settings.data_dir == tmp_path / ".threadkeep"
    assert settings.database.url is None
    assert settings.checkpoint_mode == "delta"
    assert [agent.name for agent in settings.agents] == ["agent"]
    assert settings.summarization.policy.keep.value == 20
    assert settings.summarization.policy.trim_tokens_to_summarize == 4000


def test_without_any_file_defaults_are_used(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)

    settings = load_settings(None, {})

    assert settings.config_path is None
    assert settings.data_dir == tmp_path / ".threadkeep"


def test_the_file_in_the_current_folder_is_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write(tmp_path, "server: {port: 8123}")
    monkeypatch.chdir(tmp_path)

    assert load_settings(None, {}).server.port == 8123


def test_the_file_can_be_named_by_the_environment(tmp_path: Path) -> None:
    path = write(tmp_path, "server: {port: 8124}")

    assert load_settings(None, {"THREADKEEP_CONFIG": str(path)}).server.port == 8124


def test_the_environment_beats_the_file(tmp_path: Path) -> None:
    path = write(
        tmp_path,
        "server: {host: 10.0.0.1, port: 1}\ndata_dir: from-file\ndatabase: {url: postgresql://file/db}",
    )
    environ = {
        "THREADKEEP_HOST": "10.0.0.2",
        "THREADKEEP_PORT": "2",
        "THREADKEEP_DATA_DIR": str(tmp_path / "from-environment"),
        "DATABASE_URL": "postgresql://environment/db",
    }

    settings = load_settings(path, environ)

    assert (settings.server.host, settings.server.port) == ("10.0.0.2", 2)
    assert settings.data_dir == tmp_path / "from-environment"
    assert settings.database.url is not None
    assert settings.database.url.get_secret_value() == "postgresql://environment/db"


def test_flags_beat_the_environment(tmp_path: Path) -> None:
    environ = {"THREADKEEP_HOST": "10.0.0.2", "THREADKEEP_PORT": "2", "THREADKEEP_DATA_DIR": "elsewhere"}
    flags = Overrides(host="10.0.0.3", port=0, data_dir=tmp_path / "from-flag")

    settings = load_settings(write(tmp_path, ""), environ, flags)

    assert (settings.server.host, settings.server.port) == ("10.0.0.3", 0)
    assert settings.data_dir == tmp_path / "from-flag"


def test_an_empty_variable_counts_as_not_set(tmp_path: Path) -> None:
    environ = dict.fromkeys(("THREADKEEP_HOST", "THREADKEEP_PORT", "THREADKEEP_DATA_DIR", "DATABASE_URL"), "")

    settings = load_settings(write(tmp_path, ""), environ)

    assert settings == load_settings(settings.config_path, {})


def test_relative_paths_of_the_file_start_at_its_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "deployment"
    folder.mkdir()
    (folder / "mine.py").write_text("graph = None\n")
    path = write(folder, "data_dir: state\ngraphs: {mine: './mine.py:graph'}")
    monkeypatch.chdir(tmp_path)

    settings = load_settings(Path("deployment/config.yaml"), {})

    assert settings.data_dir == folder / "state"
    assert settings.graphs[0].path == folder / "mine.py"
    assert path.parent == settings.config_dir


def test_a_file_with_nothing_but_graphs_loads(tmp_path: Path) -> None:
    (tmp_path / "mine.py").write_text("graph = None\n")

    settings = load_settings(write(tmp_path, "graphs:\n  mine: ./mine.py:graph\n"), {})

    assert [(graph.name, graph.attribute) for graph in settings.graphs] == [("mine", "graph")]
    assert settings.runnable("mine") is settings.graphs[0]


def test_a_graph_may_take_the_place_of_the_default_agent(tmp_path: Path) -> None:
    (tmp_path / "mine.py").write_text("graph = None\n")

    settings = load_settings(write(tmp_path, "graphs: {agent: './mine.py:graph'}"), {})

    assert settings.agents == ()
    assert settings.runnable("lead_agent") is settings.graphs[0]


def test_lead_agent_is_another_name_of_the_default_agent_until_one_is_called_so() -> None:
    alias = settings_from({})
    own = settings_from({"agents": [{"name": "agent"}, {"name": "lead_agent"}]})

    assert alias.runnable("lead_agent") is alias.agents[0]
    assert own.runnable("lead_agent") is own.agents[1]
    assert own.runnable("nobody") is None


def test_a_config_of_deerflow_works_unchanged(tmp_path: Path) -> None:
    settings = load_settings(write(tmp_path, DEERFLOW), {})

    assert [model.name for model in settings.models] == ["doubao", "gpt-4"]
    assert settings.models[0].context_window == 262144
    policy = settings.summarization.policy
    assert [(size.kind, size.value) for size in policy.trigger] == [("tokens", 32000)]
    assert (policy.keep.kind, policy.keep.value) == ("messages", 10)
    assert policy.trim_tokens_to_summarize == 15564
    assert settings.database == DatabaseSettings()


def test_what_is_deerflows_alone_is_listed_in_one_warning_and_legacy_keys_in_another(tmp_path: Path) -> None:
    ignored, legacy = load_settings(write(tmp_path, DEERFLOW), {}).warnings

    for key in (
        "config_version",
        "sandbox",
        "skills.use",
        "channels",
        "database.backend",
        "logging.enhance",
    ):
        assert key in ignored
    assert "summarization.preserve_recent_skill_count" in legacy


def test_a_model_gets_its_unknown_keys_but_not_those_that_describe_it(tmp_path: Path) -> None:
    doubao, gpt = load_settings(write(tmp_path, DEERFLOW), {}).models

    assert doubao.arguments() == {
        "model": "doubao-seed-1-8",
        "api_base": "https://llm.example.org/api/v3",
        "api_key": "$VOLCENGINE_API_KEY",
        "timeout": 600.0,
        "max_retries": 2,
    }
    assert gpt.arguments()["max_tokens"] == 4096


def test_a_section_with_only_comments_in_it_is_as_good_as_absent(tmp_path: Path) -> None:
    settings = load_settings(
        write(tmp_path, "models:\n  # - name: x\nserver:\nagents:\ngraphs:\nsummarization:\n"), {}
    )

    assert settings.models == ()
    assert settings.summarization.enabled


def test_the_shipped_file_loads_without_any_variable_and_without_a_warning() -> None:
    settings = load_settings(SHIPPED, {})

    assert settings.warnings == ()
    policy = settings.summarization.policy
    assert [(size.kind, size.value) for size in policy.trigger] == [("tokens", 32000)]
    assert (policy.keep.kind, policy.keep.value) == ("messages", 10)


def test_the_defaults_that_the_shipped_file_shows_in_comments_are_the_real_ones(tmp_path: Path) -> None:
    text = SHIPPED.read_text(encoding="utf-8")
    start = text.index("# --- The service")
    shown = "\n".join(
        line.removeprefix("# ") for line in text[start:].splitlines() if not line.startswith("# ---")
    )

    settings = load_settings(write(tmp_path, shown), {"DATABASE_URL": "postgresql://somewhere/db"})

    assert dataclasses.replace(settings, database=DatabaseSettings()) == load_settings(
        write(tmp_path, ""), {}
    )


def test_settings_cannot_be_changed() -> None:
    settings = settings_from({})

    with pytest.raises(dataclasses.FrozenInstanceError):
        settings.checkpoint_mode = "full"  # type: ignore[misc]
    with pytest.raises(ValidationError):
        settings.server.port = 1  # type: ignore[misc]


def test_no_secret_is_shown_when_settings_are_printed() -> None:
    model = {
        "name": "m",
        "use": "langchain_openai:ChatOpenAI",
        "api_key": "sk-very-secret",
        "default_headers": {"Authorization": "Bearer very-secret"},
    }
    settings = settings_from({"models": [model]}, environ={"DATABASE_URL": "postgresql://u:very-secret@h/d"})

    assert isinstance(settings, Settings)
    assert "very-secret" not in repr(settings)
    assert "very-secret" not in str(settings.models[0])


def test_the_driver_that_sqlalchemy_writes_into_a_url_is_taken_out() -> None:
    settings = settings_from({}, environ={"DATABASE_URL": "postgresql+asyncpg://u:p@h:5/d"})

    assert settings.database.url is not None
    assert settings.database.url.get_secret_value() == "postgresql://u:p@h:5/d"


def test_the_database_url_may_refer_to_a_variable() -> None:
    settings = settings_from({"database": {"url": "$MY_DB"}}, environ={"MY_DB": "postgres://u@h/d"})

    assert settings.database.url is not None
    assert settings.database.url.get_secret_value() == "postgresql://u@h/d"


def test_a_graph_may_be_named_by_its_module(tmp_path: Path) -> None:
    graph = load_settings(write(tmp_path, "graphs:\n  mine: my.package:graph\n"), {}).graphs[0]
    assert (graph.path, graph.module, graph.attribute, graph.folder) == (
        None,
        "my.package",
        "graph",
        tmp_path,
    )
