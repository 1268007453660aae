"""What every agent of the service is built from, besides its own settings."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from langchain_core.tools import BaseTool

from app.ports import Compactor


@dataclass(frozen=True, slots=True)
class AgentParts:
    """``tools`` are those that an agent's settings may name."""

    compactor: Compactor
    tools: Sequence[BaseTool] = ()
