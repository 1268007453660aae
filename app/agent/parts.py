"""What every agent of the service is built from, besides its own settings."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from langchain_core.tools import BaseTool

from app.agent.dynamic import DynamicContext
from app.agent.mcp import McpCatalog
from app.agent.skills import SkillCapture, SkillCatalogue
from app.agent.title import Titles
from app.agent.tool_output import ToolOutput
from app.ports import Compactor


@dataclass(frozen=True, slots=True)
class AgentParts:
    """``tools`` are those that an agent's settings may name, each with a limit of its own to what it returns.

    None: ``dynamic_context`` the model is told no date, ``titles`` threads get none, ``tool_output`` results stay
    whole, ``mcp`` there are no servers, ``skills`` and ``capture`` there are no skills.
    """

    compactor: Compactor
    tools: Sequence[BaseTool] = ()
    dynamic_context: DynamicContext | None = None
    titles: Titles | None = None
    tool_output: ToolOutput | None = None
    mcp: McpCatalog | None = None
    skills: SkillCatalogue | None = None
    capture: SkillCapture | None = None
