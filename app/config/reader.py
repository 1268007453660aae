"""Turn the sections of a document into values, and note every problem instead of stopping at the first."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any, TypeVar, get_args

from pydantic import BaseModel, ValidationError
from pydantic_core import PydanticCustomError

from app.config.agents import DEFAULT_AGENT, AgentSettings, GraphSettings, graph_from
from app.config.auth import AuthSettings
from app.config.limits import LimitsSettings
from app.config.mcp import McpSettings
from app.config.models import DEMO_MODEL_NAME, ModelSettings
from app.config.problems import KeyPath, Problem, did_you_mean, problems_of, shown, unknown_key
from app.config.recall import RecallSettings
from app.config.retention import RetentionSettings
from app.config.secrets import SecretsSettings
from app.config.sections import (
    DatabaseSettings,
    DynamicContextSettings,
    LoggingSettings,
    MemorySettings,
    RunSettings,
    ServerSettings,
    WorkerSettings,
    WorkspaceSettings,
)
from app.config.settings import CheckpointMode, Settings
from app.config.skills import SkillsSettings
from app.config.subagents import SubagentsSettings
from app.config.summarization import SummarizationSettings
from app.config.title import TitleSettings
from app.config.tool_output import ToolOutputSettings
from app.config.tracing import TracingSettings
from app.config.webhooks import WebhookSettings

DEFAULT_DATA_DIR = ".threadkeep"

_SECTIONS = (
    "server",
    "worker",
    "auth",
    "limits",
    "database",
    "data_dir",
    "models",
    "summarization",
    "agents",
    "subagents",
    "graphs",
    "dynamic_context",
    "memory",
    "title",
    "tool_output",
    "recall",
    "mcp",
    "retention",
    "secrets",
    "skills",
    "runs",
    "webhooks",
    "workspace",
    "checkpoint_mode",
    "logging",
    "tracing",
)

SectionType = TypeVar("SectionType", bound=BaseModel)


class SectionReader:
    """Reads one document. ``problems`` grows while it does; the settings count only if it stays empty."""

    def __init__(self, document: dict[str, Any], config_dir: Path) -> None:
        self._document = document
        self._config_dir = config_dir
        self.problems: list[Problem] = [
            unknown_key((key,), _SECTIONS) for key in document if key not in _SECTIONS
        ]

    def settings(self, config_path: Path | None, data_dir: Path | None, warnings: Sequence[str]) -> Settings:
        """``data_dir`` is set when something outside the document chose it."""
        models = self._items("models", ModelSettings)
        summarization = self._section("summarization", SummarizationSettings)
        self.problems += summarization.conflicts()
        skills = self._section("skills", SkillsSettings)
        graphs = self._graphs()
        agents = self._agents({graph.name for graph in graphs})
        subagents = self._subagents()
        self._check_models_named()
        self._check_apart(agents, graphs)
        return Settings(
            config_path=config_path,
            config_dir=self._config_dir,
            data_dir=(data_dir or self._data_dir()).resolve(),
            server=self._section("server", ServerSettings),
            worker=self._section("worker", WorkerSettings),
            auth=self._section("auth", AuthSettings),
            limits=self._section("limits", LimitsSettings),
            database=self._section("database", DatabaseSettings),
            models=models,
            summarization=summarization,
            agents=agents,
            subagents=subagents,
            graphs=graphs,
            dynamic_context=self._section("dynamic_context", DynamicContextSettings),
            memory=self._section("memory", MemorySettings),
            title=self._section("title", TitleSettings),
            tool_output=self._section("tool_output", ToolOutputSettings),
            recall=self._section("recall", RecallSettings),
            mcp=self._mcp(),
            retention=self._section("retention", RetentionSettings),
            secrets=self._section("secrets", SecretsSettings),
            skills=skills,
            runs=self._section("runs", RunSettings),
            webhooks=self._section("webhooks", WebhookSettings),
            workspace=self._section("workspace", WorkspaceSettings),
            checkpoint_mode=self._checkpoint_mode(),
            logging=self._section("logging", LoggingSettings),
            tracing=self._section("tracing", TracingSettings),
            warnings=(
                *warnings,
                *summarization.warnings(),
                *skills.warnings(self._config_dir),
            ),
        )

    def _section(self, key: str, schema: type[SectionType]) -> SectionType:
        raw = self._document.get(key)
        # "models:" with nothing but comments below it is null in YAML and means the same as no such line.
        read = schema() if raw is None else self._read(raw, schema, (key,))
        return read if read is not None else schema()

    def _read(self, raw: Any, schema: type[SectionType], path: KeyPath) -> SectionType | None:
        try:
            return schema.model_validate(raw)
        except ValidationError as error:
            self.problems += problems_of(error, schema, path, raw)
            return None

    def _items(self, key: str, schema: type[SectionType]) -> tuple[SectionType, ...]:
        raw = self._document.get(key)
        if raw is None:
            return ()
        if not isinstance(raw, list):
            self._refuse((key,), raw, "must be a list")
            return ()
        self._check_duplicates((key,), raw)
        read = (self._read(item, schema, (key, index)) for index, item in enumerate(raw))
        return tuple(item for item in read if item is not None)

    def _agents(self, taken: set[str]) -> tuple[AgentSettings, ...]:
        raw = self._document.get("agents")
        if raw is None:
            return () if DEFAULT_AGENT.name in taken else (DEFAULT_AGENT,)
        if raw == [] and not taken:
            self._refuse(("agents",), raw, "must hold an agent when there are no graphs")
        return self._items("agents", AgentSettings)

    def _subagents(self) -> SubagentsSettings:
        """The section, its types unique, and no agent asking for one that is not there."""
        subagents = self._section("subagents", SubagentsSettings)
        types = self._mappings("subagents", "types")
        self._check_duplicates(("subagents", "types"), types)
        known = [str(kind.get("name")) for kind in types] or subagents.names
        for index, agent in enumerate(self._mappings("agents")):
            wanted = agent.get("subagents")
            for position, name in enumerate(wanted if isinstance(wanted, list) else []):
                self._check_named(("agents", index, "subagents", position), name, known, "subagents.types")
        return subagents

    def _mcp(self) -> McpSettings:
        """The section, and no agent asking for a server that is not there."""
        mcp = self._section("mcp", McpSettings)
        for index, agent in enumerate(self._mappings("agents")):
            wanted = agent.get("mcp")
            for position, name in enumerate(wanted if isinstance(wanted, list) else []):
                self._check_named(("agents", index, "mcp", position), name, list(mcp.servers), "mcp.servers")
        return mcp

    def _graphs(self) -> tuple[GraphSettings, ...]:
        raw = self._document.get("graphs")
        if raw is None:
            return ()
        if not isinstance(raw, dict):
            self._refuse(("graphs",), raw, 'must be a mapping of names to "./path.py:attribute"')
            return ()
        read = (self._graph(str(name), target) for name, target in raw.items())
        return tuple(graph for graph in read if graph is not None)

    def _graph(self, name: str, target: Any) -> GraphSettings | None:
        try:
            return graph_from(name, target, self._config_dir)
        except PydanticCustomError as error:
            self._refuse(("graphs", name), target, error.message())
            return None

    def _data_dir(self) -> Path:
        raw = self._document.get("data_dir", DEFAULT_DATA_DIR)
        if not isinstance(raw, str) or not raw.strip():
            self._refuse(("data_dir",), raw, "must be the path of a folder")
            return self._config_dir
        return self._config_dir / Path(raw).expanduser()

    def _checkpoint_mode(self) -> CheckpointMode:
        raw = self._document.get("checkpoint_mode", "delta")
        if raw not in get_args(CheckpointMode):
            self._refuse(("checkpoint_mode",), raw, "must be 'delta' or 'full'")
        return "full" if raw == "full" else "delta"

    def _check_duplicates(self, path: KeyPath, raw: list[Any]) -> None:
        seen: set[str] = set()
        for index, item in enumerate(raw):
            name = item.get("name") if isinstance(item, dict) else None
            if not isinstance(name, str):
                continue
            if name in seen:
                self._refuse((*path, index, "name"), name, "must be unique; it is used by an earlier entry")
            seen.add(name)

    def _check_models_named(self) -> None:
        """Names of models as written: one that is wrong elsewhere is still the one that was meant."""
        known = [str(item["name"]) for item in self._mappings("models") if "name" in item]
        for section in ("summarization", "memory", "title"):
            content = self._document.get(section)
            if isinstance(content, dict):
                self._check_model((section, "model_name"), content.get("model_name"), known)
        for index, agent in enumerate(self._mappings("agents")):
            self._check_model(("agents", index, "model"), agent.get("model"), known)
        for index, kind in enumerate(self._mappings("subagents", "types")):
            self._check_model(("subagents", "types", index, "model"), kind.get("model"), known)

    def _mappings(self, *keys: str) -> list[dict[str, Any]]:
        raw: Any = self._document
        for key in keys:
            raw = raw.get(key) if isinstance(raw, dict) else None
        return [item if isinstance(item, dict) else {} for item in raw] if isinstance(raw, list) else []

    def _check_model(self, path: KeyPath, name: Any, known: Sequence[str]) -> None:
        self._check_named(path, name, [*known, DEMO_MODEL_NAME], "models")

    def _check_named(self, path: KeyPath, name: Any, known: Sequence[str], where: str) -> None:
        if isinstance(name, str) and name not in known:
            self._refuse(path, name, f"must name an entry of {where} ({did_you_mean(name, known)})")

    def _check_apart(self, agents: Sequence[AgentSettings], graphs: Sequence[GraphSettings]) -> None:
        names = {agent.name for agent in agents}
        for graph in graphs:
            if graph.name in names:
                self._refuse(("graphs", graph.name), graph.name, "must not be the name of an agent as well")

    def _refuse(self, path: KeyPath, value: Any, rule: str) -> None:
        self.problems.append(Problem(path, f"{shown(value, path)} is not allowed: it {rule}"))
