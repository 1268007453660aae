"""What every agent of the service is built from, besides its own settings."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from langchain_core.tools import BaseTool

from app.agent.dynamic import DynamicContext
from app.agent.skills import SkillCapture, SkillCatalogue
from app.ports import Compactor


@dataclass(frozen=True, slots=True)
class AgentParts:
    """``tools`` are those that an agent's settings may name. ``dynamic_context`` None: the model is told no date;
    without ``skills`` and ``capture`` there are no skills."""

    compactor: Compactor
    tools: Sequence[BaseTool] = ()
    dynamic_context: DynamicContext | None = None
    skills: SkillCatalogue | None = None
    capture: SkillCapture | None = None
