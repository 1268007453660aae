"""What of the service is switched on, for front ends that show only what works."""

from __future__ import annotations

from typing import Any

from app.config import Settings


def features_of(settings: Settings) -> dict[str, Any]:
    """By name, each with ``enabled``. Names that DeerFlow's front end asks for and that do not exist here are off."""
    switches = {
        "compaction": settings.summarization.enabled,
        "memory": settings.memory.enabled,
        "skills": settings.skills_dir.is_dir(),
        "subagents": bool(settings.subagents.types),
        "titles": settings.title.enabled,
        "mcp": bool(settings.mcp.servers),
        "webhooks": bool(settings.webhooks.allowed_hosts),
        "token_usage": True,
        "agents_api": False,
        "browser_control": False,
        "mcp_tasks": False,
        "uploads": False,
    }
    return {name: {"enabled": on} for name, on in switches.items()}
