"""Settings: config.yaml and environment, read once, validated once, frozen (rule A5)."""

from app.config.agents import AGENT_ALIASES, AgentSettings, GraphSettings
from app.config.auth import AuthSettings, JwtSettings
from app.config.limits import LimitsSettings
from app.config.load import Overrides, load_settings, settings_from
from app.config.mcp import McpServerSettings, McpSettings
from app.config.models import DEMO_MODEL_NAME, ModelSettings
from app.config.recall import RecallSettings
from app.config.retention import RetentionSettings
from app.config.secrets import SecretPattern, SecretsSettings
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
from app.config.settings import Settings
from app.config.skills import SkillsSettings
from app.config.subagents import SubagentSettings, SubagentsSettings
from app.config.summarization import ContextSizeSettings, SummarizationSettings
from app.config.title import TitleSettings
from app.config.tool_output import ToolOutputSettings
from app.config.tracing import TracingSettings
from app.config.webhooks import WebhookSettings

__all__ = [
    "AGENT_ALIASES",
    "DEMO_MODEL_NAME",
    "AgentSettings",
    "AuthSettings",
    "ContextSizeSettings",
    "DatabaseSettings",
    "DynamicContextSettings",
    "GraphSettings",
    "JwtSettings",
    "LimitsSettings",
    "LoggingSettings",
    "McpServerSettings",
    "McpSettings",
    "MemorySettings",
    "ModelSettings",
    "Overrides",
    "RecallSettings",
    "RetentionSettings",
    "RunSettings",
    "SecretPattern",
    "SecretsSettings",
    "ServerSettings",
    "Settings",
    "SkillsSettings",
    "SubagentSettings",
    "SubagentsSettings",
    "SummarizationSettings",
    "TitleSettings",
    "ToolOutputSettings",
    "TracingSettings",
    "WebhookSettings",
    "WorkerSettings",
    "WorkspaceSettings",
    "load_settings",
    "settings_from",
]
