"""All settings of a process as one frozen value."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

from app.config.agents import AGENT_ALIASES, DEFAULT_AGENT, AgentSettings, GraphSettings
from app.config.auth import AuthSettings
from app.config.limits import LimitsSettings
from app.config.mcp import McpSettings
from app.config.models import ModelSettings
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
from app.config.skills import SkillsSettings
from app.config.subagents import SubagentsSettings
from app.config.summarization import SummarizationSettings
from app.config.title import TitleSettings
from app.config.tool_output import ToolOutputSettings
from app.config.tracing import TracingSettings
from app.config.webhooks import WebhookSettings

CheckpointMode = Literal["delta", "full"]


@dataclass(frozen=True, slots=True)
class Settings:
    """What config.yaml, the environment and the command line add up to (rule A5: read once, frozen).

    ``config_path`` is None when no file was read. ``config_dir`` is where relative paths of the file start.
    ``data_dir`` is absolute and need not exist. ``warnings`` are sentences for the log, in order. ``repr``
    shows no secret.
    """

    config_path: Path | None
    config_dir: Path
    data_dir: Path
    server: ServerSettings = field(default_factory=ServerSettings)
    worker: WorkerSettings = field(default_factory=WorkerSettings)
    auth: AuthSettings = field(default_factory=AuthSettings)
    limits: LimitsSettings = field(default_factory=LimitsSettings)
    database: DatabaseSettings = field(default_factory=DatabaseSettings)
    models: tuple[ModelSettings, ...] = ()
    summarization: SummarizationSettings = field(default_factory=SummarizationSettings)
    agents: tuple[AgentSettings, ...] = (DEFAULT_AGENT,)
    subagents: SubagentsSettings = field(default_factory=SubagentsSettings)
    graphs: tuple[GraphSettings, ...] = ()
    dynamic_context: DynamicContextSettings = field(default_factory=DynamicContextSettings)
    memory: MemorySettings = field(default_factory=MemorySettings)
    title: TitleSettings = field(default_factory=TitleSettings)
    tool_output: ToolOutputSettings = field(default_factory=ToolOutputSettings)
    recall: RecallSettings = field(default_factory=RecallSettings)
    mcp: McpSettings = field(default_factory=McpSettings)
    retention: RetentionSettings = field(default_factory=RetentionSettings)
    secrets: SecretsSettings = field(default_factory=SecretsSettings)
    skills: SkillsSettings = field(default_factory=SkillsSettings)
    runs: RunSettings = field(default_factory=RunSettings)
    webhooks: WebhookSettings = field(default_factory=WebhookSettings)
    workspace: WorkspaceSettings = field(default_factory=WorkspaceSettings)
    checkpoint_mode: CheckpointMode = "delta"
    logging: LoggingSettings = field(default_factory=LoggingSettings)
    tracing: TracingSettings = field(default_factory=TracingSettings)
    warnings: tuple[str, ...] = ()

    @property
    def skills_dir(self) -> Path:
        """Absolute; it need not exist."""
        return self.skills.folder(self.config_dir)

    def runnable(self, name: str) -> AgentSettings | GraphSettings | None:
        """The agent or graph of that name, or that an alias such as ``lead_agent`` means; None if unknown."""
        known: dict[str, AgentSettings | GraphSettings] = {graph.name: graph for graph in self.graphs}
        known |= {agent.name: agent for agent in self.agents}
        return known.get(name) or known.get(AGENT_ALIASES.get(name, name))
