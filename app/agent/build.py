"""Builds the agents of the configuration as LangGraph graphs, once per agent and model."""

from __future__ import annotations

import logging
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from functools import partial
from typing import Any

from langchain.agents import create_agent
from langchain.agents.middleware import AgentMiddleware
from langchain_core.language_models import BaseChatModel
from langchain_core.messages import SystemMessage
from langchain_core.tools import BaseTool
from langgraph.checkpoint.base import BaseCheckpointSaver

from app.agent.equipped import Graph, equipped
from app.agent.mcp import LiveTools
from app.agent.middleware import chain
from app.agent.middleware.turn_limit import TurnLimitMiddleware
from app.agent.names import resolve_name
from app.agent.parts import AgentParts
from app.agent.skills import AgentSkills
from app.agent.state import STATE_SCHEMAS
from app.agent.subagents import Places, Subagents
from app.agent.tools.clarification import CLARIFICATION_TOOL
from app.agent.tools.task import TASK_TOOL, task_tool
from app.agent.writer import state_writer
from app.config import AgentSettings, Settings, SubagentSettings
from app.errors import ConfigError
from app.ports import HISTORY_TOOLS, AgentSpec, ChatModels

READ_TOOL = "read_file"
# Nobody talks to a subagent who could answer, and what was said to the lead agent is not for it.
_NOT_FOR_SUBAGENTS = {CLARIFICATION_TOOL, *HISTORY_TOOLS}
log = logging.getLogger(__name__)


class AgentGraphs:
    """The hosted graphs. ``savers`` makes a new checkpointer for each use, since one serialises its callers;
    ``placeholder`` stands for the model where a graph only reads and writes state."""

    def __init__(
        self,
        settings: Settings,
        models: ChatModels,
        parts: AgentParts,
        savers: Callable[[], BaseCheckpointSaver[Any]],
        placeholder: BaseChatModel,
    ) -> None:
        self._agents: Mapping[str, AgentSettings] = {agent.name: agent for agent in settings.agents}
        self._schema = STATE_SCHEMAS[settings.checkpoint_mode]
        self._models = models
        self._parts = parts
        self._tools = {tool.name: tool for tool in parts.tools}
        self._savers = savers
        self._places = Places(settings.subagents.max_parallel)
        self._teams = {agent.name: self._team(agent, settings.subagents.types) for agent in settings.agents}
        self._skills = {agent.name: self._skills_of(agent) for agent in settings.agents}
        self._listings: dict[str, str] = {}
        self._specs: dict[str, AgentSpec] = {}
        self._built: dict[tuple[str, ...], Graph] = {}
        for name in self._agents:
            self._refresh(name)
        self._reading = {name: self._build(name, placeholder, "") for name in self._agents}
        self._writing = state_writer(self._schema)

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(self._agents)

    @property
    def default(self) -> str:
        return self.names[0]

    def resolve(self, assistant_id_or_name: str) -> str:
        return resolve_name(self.names, assistant_id_or_name)

    def spec(self, name: str | None) -> AgentSpec:
        known = self._known(name)
        self._refresh(known)
        return self._specs[known]

    def for_state(self, name: str | None) -> Graph:
        return equipped(self._reading[self._known(name)], self._savers())

    def writer(self, name: str | None) -> Graph:
        return equipped(self._writing, self._savers())

    def for_run(self, name: str, model_name: str) -> Graph:
        self._refresh(name)
        key = (name, model_name)
        if key not in self._built:
            self._built[key] = self._build(name, self._models.get(model_name), model_name)
        return equipped(self._built[key], self._savers())

    @asynccontextmanager
    async def open_run(self, name: str, model_name: str, config: Mapping[str, Any]) -> AsyncIterator[Graph]:
        yield self.for_run(name, model_name)

    def check_compactable(self, name: str | None, values: Mapping[str, Any]) -> None:
        """All of them hold messages."""

    def write_of(self, name: str | None, update: Mapping[str, Any]) -> dict[str, Any]:
        return dict(update)

    def _known(self, name: str | None) -> str:
        return name if name is not None and name in self._agents else self.default

    def _refresh(self, name: str) -> None:
        """Skills that changed on disk change the system prompt, and with it the graphs of the agent."""
        skills = self._skills[name]
        listing = skills.listing() if skills else ""
        if self._listings.get(name) != listing:
            self._listings[name] = listing
            self._specs[name] = self._spec(self._agents[name], "")
            self._built = {key: graph for key, graph in self._built.items() if key[0] != name}

    def _skills_of(self, agent: AgentSettings) -> AgentSkills | None:
        skills = self._skills_for(agent.skills, self._tools_of(agent))
        if skills and (missing := skills.missing()):
            log.warning("agents.%s.skills: there is no skill %s", agent.name, ", ".join(missing))
        return skills

    def _skills_for(self, names: Sequence[str] | None, tools: Sequence[BaseTool]) -> AgentSkills | None:
        if self._parts.skills is None:
            return None
        reads = any(tool.name == READ_TOOL for tool in tools)
        return AgentSkills(self._parts.skills, names, READ_TOOL if reads else None)

    def _spec(self, agent: AgentSettings, model_name: str) -> AgentSpec:
        """``model_name`` is the model of the run: what its subagents use that have none of their own (rule E1)."""
        team, servers = self._teams[agent.name], self._servers_of(agent)
        given = [task_tool(team, model_name)] if team.descriptions else []
        return AgentSpec(
            name=agent.name,
            model=agent.model,
            system=_system(agent.system_prompt, self._listings[agent.name]),
            tools=self._with_servers((*self._tools_of(agent), *given), servers),
            description=agent.description,
            skills=self._skills[agent.name],
            mcp=servers,
        )

    def _team(self, agent: AgentSettings, types: Sequence[SubagentSettings]) -> Subagents:
        wanted = agent.subagents
        if wanted is None:
            everything = agent.tools is None or TASK_TOOL in agent.tools
            wanted = tuple(kind.name for kind in types) if everything else ()
        chosen = [kind for kind in types if kind.name in wanted]
        for kind in chosen:
            self._named(kind.tools, f"subagents.types.{kind.name}.tools")
        return Subagents(chosen, partial(self._subagent, agent), self._places)

    def _subagent(self, agent: AgentSettings, kind: SubagentSettings, model_name: str) -> Graph:
        """Without a checkpointer of its own: inside a run it gets the run's."""
        tools = self._tools_of(agent) if kind.tools is None else self._named(kind.tools, kind.name)
        skills = self._skills_for(agent.skills if kind.skills is None else kind.skills, tools)
        listing = skills.listing() if skills else ""
        key = (agent.name, model_name, kind.name, listing)
        if key not in self._built:
            own = [tool for tool in tools if tool.name not in _NOT_FOR_SUBAGENTS]
            servers = self._servers_of(agent) if kind.tools is None else ()
            spec = AgentSpec(
                name=kind.name,
                model=kind.model,
                system=_system(kind.system_prompt, listing),
                tools=self._with_servers(own, servers),
                description=kind.description,
                kind="subagent",
                mcp=servers,
            )
            limit = TurnLimitMiddleware(kind.max_turns)
            self._built[key] = self._create(spec, self._models.get(model_name), model_name, limit)
        return self._built[key]

    def _servers_of(self, agent: AgentSettings) -> tuple[str, ...]:
        known = self._parts.mcp.servers if self._parts.mcp else ()
        return known if agent.mcp is None else tuple(name for name in known if name in agent.mcp)

    def _with_servers(self, own: Sequence[BaseTool], servers: Sequence[str]) -> Sequence[BaseTool]:
        catalog = self._parts.mcp
        return LiveTools(own, partial(catalog.known, servers)) if catalog and servers else tuple(own)

    def _tools_of(self, agent: AgentSettings) -> list[BaseTool]:
        """All but ``task``, which is there when there is somebody to give a task to."""
        names = agent.tools and [name for name in agent.tools if name != TASK_TOOL]
        return self._named(names, f"agents.{agent.name}.tools")

    def _named(self, names: Sequence[str] | None, where: str) -> list[BaseTool]:
        """The tools of these names, None: all. Raises ConfigError."""
        wanted = self._tools if names is None else names
        unknown = [name for name in wanted if name not in self._tools]
        if unknown:
            raise ConfigError(
                f"{where}: unknown {', '.join(map(repr, unknown))}; known: {', '.join(self._tools)}"
            )
        return [self._tools[name] for name in wanted]

    def _build(self, name: str, model: BaseChatModel, model_name: str) -> Graph:
        return self._create(self._spec(self._agents[name], model_name), model, model_name)

    def _create(
        self,
        spec: AgentSpec,
        model: BaseChatModel,
        model_name: str,
        *outermost: AgentMiddleware[Any, Any],
    ) -> Graph:
        return create_agent(
            model,
            # Those of servers are added on each call.
            list(spec.tools.own if isinstance(spec.tools, LiveTools) else spec.tools),
            system_prompt=spec.system,
            middleware=[*outermost, *chain(self._parts, spec, model_name)],
            state_schema=self._schema,
            name=None,
        )


def _system(*parts: str) -> SystemMessage | None:
    text = "\n".join(filter(None, parts))
    return SystemMessage(content=text) if text else None
